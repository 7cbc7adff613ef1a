"""The parts of an image generator: a U-Net with time and attention, and a decoder of latents."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .network import Network, picture


class Residual(nn.Module):
    """Two convolutions after group norms; in between, the time is added."""

    def __init__(self, given: int, wanted: int, time: int | None = None):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, given), nn.Conv2d(given, wanted, 3, padding=1)
        self.time = nn.Linear(time, wanted) if time else None
        self.norm2, self.conv2 = nn.GroupNorm(8, wanted), nn.Conv2d(wanted, wanted, 3, padding=1)
        self.shortcut = nn.Conv2d(given, wanted, 1) if given != wanted else nn.Identity()

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    """Each place of the picture looks at all others, or at the words of a text."""

    def __init__(self, width: int, heads: int = 4, context: int | None = None):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, width), heads
        self.query, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.key, self.value = (nn.Linear(context or width, width, bias=False) for _ in range(2))

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        batch, width, height, columns = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        context = rows if context is None else context
        y = F.scaled_dot_product_attention(self.split(self.query(rows)), self.split(self.key(context)),
                                           self.split(self.value(context)))
        y = self.output(y.transpose(1, 2).reshape(batch, height * columns, width))
        return x + y.transpose(1, 2).reshape(batch, width, height, columns)


class UNet(nn.Module):
    """Noise in a noisy latent, given the time and a text: two levels, with attention on the lower one."""

    def __init__(self, width: int = 16, context: int = 24):
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down1, self.smaller = Residual(width, width, time), nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.down2, self.middle = Residual(width, 2 * width, time), Residual(2 * width, 2 * width, time)
        self.to_self, self.to_text = Attention(2 * width), Attention(2 * width, context=context)
        self.up2, self.larger = Residual(4 * width, width, time), nn.Conv2d(width, width, 3, padding=1)
        self.up1 = Residual(2 * width, width, time)
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def embed(self, time: Tensor) -> Tensor:
        """Sines and cosines of the time."""
        half = self.width // 2
        rates = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
        angles = time[:, None].float() * rates[None]
        return self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        time = self.embed(time)
        first = self.down1(self.first(x), time)
        second = self.to_text(self.to_self(self.down2(self.smaller(first), time)), context)
        y = self.up2(torch.cat([self.middle(second, time), second], dim=1), time)
        y = self.larger(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.last(self.up1(torch.cat([y, first], dim=1), time))


class Decoder(nn.Module):
    """A variational autoencoder's second half: latents become a picture of four times the size."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.middle = nn.Sequential(Residual(width, width), Attention(width, heads=1), Residual(width, width))
        self.stages = nn.Sequential(*(
            nn.Sequential(Residual(width, width), nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(2)))
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, latent: Tensor) -> Tensor:
        return self.last(self.stages(self.middle(self.first(latent / 0.18215)))).clamp(-1, 1)


class Encoder(nn.Module):
    """Its first half: mean and spread of the latents, and one draw with given noise."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.stages = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), Residual(width, width), nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(width, width, 3, stride=2), Residual(width, 2 * width), nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(2 * width, 2 * width, 3, stride=2), nn.GroupNorm(8, 2 * width), nn.SiLU(),
            nn.Conv2d(2 * width, 8, 3, padding=1))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        mean, spread = self.stages(x).chunk(2, dim=1)
        return mean + torch.exp(0.5 * spread.clamp(-30, 20)) * noise


def unet_inputs(batch: int, height: int, width: int) -> list[Tensor]:
    return [torch.randn(batch, 4, height, width), torch.randint(0, 1000, (batch,)), torch.randn(batch, 7, 24)]


def encoder_inputs(batch: int, height: int, width: int) -> list[Tensor]:
    return [torch.randn(batch, 3, height, width), torch.randn(batch, 4, height // 4, width // 4)]


NETWORKS = {
    "diffusion_unet": Network(UNet, unet_inputs, ((2, 16, 16),)),
    "diffusion_unet_dynamic": Network(UNet, unet_inputs, ((2, 16, 16), (1, 24, 32), (3, 8, 16))),
    "vae_decoder": Network(Decoder, picture(4), ((2, 8, 8),)),
    "vae_decoder_dynamic": Network(Decoder, picture(4), ((2, 8, 8), (1, 12, 16), (3, 4, 8))),
    "vae_encoder": Network(Encoder, encoder_inputs, ((2, 32, 32),)),
}
