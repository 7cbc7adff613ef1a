"""Networks that hear sound, and others of sequences."""

import torch
from torch import Tensor, nn
from transformers import (ASTConfig, ASTModel, DacConfig, Data2VecAudioConfig, Data2VecAudioModel, EncodecConfig,
                          HubertConfig, HubertModel, SEWConfig, SEWModel, Speech2TextConfig, Speech2TextModel, SpeechT5HifiGan,
                          SpeechT5HifiGanConfig, Wav2Vec2Config, Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel,
                          Wav2Vec2ForCTC, WavLMConfig, WavLMModel, WhisperConfig, WhisperModel)
from transformers.models.dac.modeling_dac import DacDecoder, DacEncoder
from transformers.models.encodec.modeling_encodec import EncodecDecoder, EncodecEncoder
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from .network import Network, Outputs, ids

HIDDEN = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
WAVES = {"conv_dim": [32, 32, 32], "conv_stride": [5, 4, 2], "conv_kernel": [10, 8, 4], "num_feat_extract_layers": 3,
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, **HIDDEN}
WAVE_SIZES = ((2, 1600), (1, 2400), (3, 1000))


def wave(batch: int, length: int) -> list[Tensor]:
    return [torch.randn(batch, length)]


def channels(count: int):
    """Makes sequences of that many channels."""
    return lambda batch, length: [torch.randn(batch, count, length)]


def steps(count: int):
    """Makes sequences of that many features for each step."""
    return lambda batch, length: [torch.randn(batch, length, count)]


def of_waves(network, configuration, outputs="last_hidden_state", sizes=((2, 1600),), **settings) -> Network:
    def build():
        return Outputs(network(configuration(**(WAVES | settings))), "input_values", outputs)
    return Network(build, wave, sizes)


WHISPER = {"vocab_size": 200, "num_mel_bins": 16, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
           "max_source_positions": 40, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2, "decoder_start_token_id": 1}


def whisper_encoder() -> Network:
    def build():
        return Outputs(WhisperEncoder(WhisperConfig(**WHISPER)), "input_features", "last_hidden_state")
    return Network(build, channels(16), ((2, 80),))


def whisper() -> Network:
    """Encoder and decoder.

    With `scaled_dot_product_attention` PNNX makes `nn.MultiheadAttention` of it, whose boolean masks mean the opposite, and
    takes the mask of a batch for one that all share: hence sums of scores and mask, and one sound.
    """
    def build():
        model = WhisperModel(WhisperConfig(attn_implementation="eager", **WHISPER))
        return Outputs(model, "input_features decoder_input_ids", "last_hidden_state", use_cache=False)
    return Network(build, lambda batch, length: [torch.randn(batch, 16, 80), ids(200, batch, length)], ((1, 7),))


def spectrogram() -> Network:
    def build():
        return Outputs(ASTModel(ASTConfig(max_length=64, num_mel_bins=32, **HIDDEN)), "input_values",
                       "last_hidden_state pooler_output")
    return Network(build, steps(32), ((2, 64),))


def speech_to_text() -> Network:
    def build():
        model = Speech2TextModel(Speech2TextConfig(
            vocab_size=200, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128,
            input_feat_per_channel=16, conv_channels=32, max_source_positions=100))
        return Outputs(model.get_encoder(), "input_features", "last_hidden_state")
    return Network(build, steps(16), ((2, 64),))


def vocoder() -> nn.Module:
    return SpeechT5HifiGan(SpeechT5HifiGanConfig(
        model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3, 7], resblock_dilation_sizes=[[1, 3], [1, 3]]))


DAC = {"encoder_hidden_size": 8, "decoder_hidden_size": 32, "hidden_size": 32, "downsampling_ratios": [2, 4],
       "upsampling_ratios": [4, 2]}
ENCODEC = {"num_filters": 8, "hidden_size": 32, "upsampling_ratios": [4, 2], "codebook_dim": 32, "num_lstm_layers": 1}


class TemporalBlock(nn.Module):
    """Two dilated convolutions that look only back, around them a shortcut."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.convolutions = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(width, width, 3, dilation=dilation)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for convolution in self.convolutions:
            y = torch.relu(convolution(self.pad(y)))
        return torch.relu(x + y)


class WaveBlock(nn.Module):
    """WaveNet's: a dilated convolution, gated; what it adds to the sequence, and what it gives to the result."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, 3, dilation=dilation, padding="same")
        self.residual, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, gate = self.convolution(x).chunk(2, dim=1)
        y = torch.tanh(value) * torch.sigmoid(gate)
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.blocks = nn.ModuleList(WaveBlock(width, 2 ** index) for index in range(4))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, 32, 1), nn.ReLU(), nn.Conv1d(32, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.first(x), 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return torch.log_softmax(self.last(total), dim=1)


def tcn() -> nn.Module:
    blocks = [TemporalBlock(16, 2 ** index) for index in range(4)]
    return nn.Sequential(nn.Conv1d(4, 16, 1), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 5))


def keyword_spotter() -> nn.Module:
    """M5: a network of convolutions on the wave itself."""
    def stage(given: int, wanted: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv1d(given, wanted, kernel, stride), nn.BatchNorm1d(wanted), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*stage(1, 16, 80, 4), *stage(16, 16, 3), *stage(16, 32, 3), *stage(32, 32, 3),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10), nn.LogSoftmax(dim=1))


class Tagger(nn.Module):
    """Words to tags: an embedding, a bidirectional LSTM of two layers, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(200, 32)
        self.recurrent = nn.LSTM(32, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(48, 9)

    def forward(self, words: Tensor) -> Tensor:
        return torch.log_softmax(self.tags(self.recurrent(self.embedding(words))[0]), dim=-1)


class Translator(nn.Module):
    """Words to words: a GRU reads, another writes from its last state, looking back by attention."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(200, 32), nn.Embedding(100, 32)
        self.encoder = nn.GRU(32, 24, batch_first=True, num_layers=2)
        self.decoder = nn.GRU(32, 24, batch_first=True, num_layers=2)
        self.scores = nn.Linear(48, 100)

    def forward(self, read: Tensor, written: Tensor) -> Tensor:
        memory, state = self.encoder(self.source(read))
        y, _ = self.decoder(self.target(written), state)
        weights = torch.softmax(torch.bmm(y, memory.transpose(1, 2)) * 24 ** -0.5, dim=-1)
        return self.scores(torch.cat([y, torch.bmm(weights, memory)], dim=-1))


def words(batch: int, length: int) -> list[Tensor]:
    return [ids(200, batch, length)]


NETWORKS = {
    "wav2vec2": of_waves(Wav2Vec2ForCTC, Wav2Vec2Config, "logits", vocab_size=32),
    "wav2vec2_stable": of_waves(Wav2Vec2ForCTC, Wav2Vec2Config, "logits", vocab_size=32, feat_extract_norm="layer",
                                do_stable_layer_norm=True, conv_bias=True),
    "wav2vec2_dynamic": of_waves(Wav2Vec2ForCTC, Wav2Vec2Config, "logits", WAVE_SIZES, vocab_size=32,
                                 num_conv_pos_embeddings=15),  # odd: with an even number PNNX loses the cut that follows
    "hubert": of_waves(HubertModel, HubertConfig),
    "wavlm": of_waves(WavLMModel, WavLMConfig, num_buckets=32, max_bucket_distance=80),
    "data2vec_audio": of_waves(Data2VecAudioModel, Data2VecAudioConfig),
    "conformer": of_waves(Wav2Vec2ConformerModel, Wav2Vec2ConformerConfig, position_embeddings_type="relative"),
    "conformer_rotary": of_waves(Wav2Vec2ConformerModel, Wav2Vec2ConformerConfig, position_embeddings_type="rotary"),
    "sew": of_waves(SEWModel, SEWConfig, squeeze_factor=2),
    "speech_to_text": speech_to_text(),
    "hifigan": Network(vocoder, steps(16), ((2, 20),)),
    "dac_encoder": Network(lambda: DacEncoder(DacConfig(**DAC)), channels(1), ((2, 256),)),
    "dac_decoder": Network(lambda: DacDecoder(DacConfig(**DAC)), channels(32), ((2, 20),)),
    "whisper_encoder": whisper_encoder(),
    "whisper": whisper(),
    "spectrogram_transformer": spectrogram(),
    "tcn": Network(tcn, channels(4), ((2, 50), (3, 60), (1, 40))),
    "wavenet": Network(WaveNet, channels(1), ((2, 64),)),
    "keyword_spotter": Network(keyword_spotter, channels(1), ((2, 8000),)),
    "encodec_encoder": Network(lambda: EncodecEncoder(EncodecConfig(**ENCODEC)), channels(1), ((2, 400),)),
    "encodec_decoder": Network(lambda: EncodecDecoder(EncodecConfig(**ENCODEC)), channels(32), ((2, 25),)),
    "gru_translator": Network(Translator, lambda batch, length: words(batch, length) + [ids(100, batch, 7)], ((2, 12),)),
    "lstm_tagger": Network(Tagger, words, ((2, 12),)),
    "lstm_tagger_dynamic": Network(Tagger, words, ((2, 12), (3, 17), (1, 5))),
}
