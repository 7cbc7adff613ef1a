"""Networks of timm that see pictures, one of each family."""

import timm
import torch
from timm.models.mobilevit import MobileVitV2Block

from .network import Network, picture
from .vision import SIZES, SQUARE

SMALL_VIT = {"img_size": 64, "patch_size": 8, "embed_dim": 64, "depth": 2, "num_heads": 4}


def addcmul(x, a, b, value=1):
    """`torch.addcmul` by operators that PNNX knows."""
    return x + value * a * b


def of_timm(name: str, sizes=SQUARE, patches=(), **settings) -> Network:
    """A network of timm, by name, with settings that make it smaller."""
    return Network(lambda: timm.create_model(name, pretrained=False, **settings), picture(), sizes, patches=patches)


def mobilevitv2() -> Network:
    """MobileViTv2, folding its patches by `pixel_shuffle`: PNNX takes its other way for that, too, but with wrong shapes."""
    def build():
        model = timm.create_model("mobilevitv2_050")
        for module in model.modules():
            if isinstance(module, MobileVitV2Block):
                module.coreml_exportable = True
        return model
    return Network(build, picture(), SQUARE)


NETWORKS = {
    "beit": of_timm("beit_base_patch16_224", **SMALL_VIT),
    "cait": of_timm("cait_s24_224", **SMALL_VIT),
    "coat": of_timm("coat_lite_mini", ((1, 64, 64),), img_size=64),
    "coatnet": of_timm("coatnet_nano_rw_224", ((1, 64, 64),), img_size=64),
    "convit": of_timm("convit_tiny", **SMALL_VIT),
    "convnextv2": of_timm("convnextv2_atto", patches=((torch, "addcmul", addcmul),)),
    "convnextv2_dynamic": of_timm("convnextv2_atto", SIZES, patches=((torch, "addcmul", addcmul),)),
    "crossvit": of_timm("crossvit_9_240", ((1, 240, 240),)),
    "cspdarknet": of_timm("cs3darknet_focus_s"),
    "davit": of_timm("davit_tiny", depths=(1, 1, 1, 1), embed_dims=(32, 64, 96, 128), num_heads=(1, 2, 3, 4)),
    "deit3": of_timm("deit3_small_patch16_224", **SMALL_VIT),
    "dpn": of_timm("dpn48b"),
    "edgenext": of_timm("edgenext_xx_small", ((2, 64, 64),)),
    "efficientformer": of_timm("efficientformer_l1", ((1, 224, 224),)),
    "efficientvit_mit": of_timm("efficientvit_b0"),
    "efficientvit_msra": of_timm("efficientvit_m0", img_size=64),
    "eva02": of_timm("eva02_tiny_patch14_224", **SMALL_VIT),
    "fastvit": of_timm("fastvit_t8"),
    "focalnet": of_timm("focalnet_tiny_srf", ((1, 64, 64),)),
    "gcvit": of_timm("gcvit_xxtiny", ((1, 224, 224),)),
    "ghostnet": of_timm("ghostnet_050"),
    "gmlp": of_timm("gmlp_s16_224", ((1, 224, 224),)),
    "hiera": of_timm("hiera_tiny_224", ((1, 224, 224),), stages=(1, 1, 1, 1)),
    "hrnet": of_timm("hrnet_w18_small"),
    "inception_next": of_timm("inception_next_atto"),
    "levit": of_timm("levit_128s", img_size=64),
    "mambaout": of_timm("mambaout_femto"),
    "maxvit": of_timm("maxvit_rmlp_pico_rw_256", ((1, 64, 64),), img_size=64),
    "mixer": of_timm("mixer_s32_224", ((1, 224, 224),)),
    "mobilevit": of_timm("mobilevit_xxs"),
    "mobilevitv2": mobilevitv2(),
    "mobilenetv4": of_timm("mobilenetv4_hybrid_medium"),
    "mvitv2": of_timm("mvitv2_tiny", img_size=64),
    "nest": of_timm("nest_tiny", img_size=64),
    "nextvit": of_timm("nextvit_small"),
    "nfnet": of_timm("nf_regnet_b0"),
    "dm_nfnet": of_timm("dm_nfnet_f0", ((1, 64, 64),)),
    "poolformer": of_timm("poolformerv2_s12"),
    "caformer": of_timm("caformer_s18", ((1, 64, 64),)),
    "pit": of_timm("pit_ti_224", ((1, 224, 224),)),
    "pvt_v2": of_timm("pvt_v2_b0"),
    "pvt_v2_dynamic": of_timm("pvt_v2_b0", SIZES),
    "regnet": of_timm("regnety_002"),
    "regnet_dynamic": of_timm("regnety_002", SIZES),
    "repghost": of_timm("repghostnet_050"),
    "repvgg": of_timm("repvgg_a0"),
    "repvit": of_timm("repvit_m0_9"),
    "res2net": of_timm("res2net50_14w_8s"),
    "resmlp": of_timm("resmlp_12_224", ((1, 224, 224),), patches=((torch, "addcmul", addcmul),)),
    "resnest": of_timm("resnest14d"),
    "rexnet": of_timm("rexnet_100", ((2, 128, 128),)),
    "skresnet": of_timm("skresnet18"),
    "starnet": of_timm("starnet_s1"),
    "swiftformer": of_timm("swiftformer_xs", ((1, 224, 224),)),
    "swin": of_timm("swin_tiny_patch4_window7_224", ((1, 112, 112),), img_size=112, depths=(2, 2), embed_dim=32,
                    num_heads=(2, 4)),
    "swinv2": of_timm("swinv2_tiny_window8_256", ((1, 128, 128),), img_size=128, depths=(2, 2), embed_dim=32,
                      num_heads=(2, 4)),
    "tiny_vit": of_timm("tiny_vit_5m_224", ((1, 224, 224),), depths=(1, 1, 2, 1)),
    "tnt": of_timm("tnt_s_patch16_224", img_size=64, depth=2),
    "twins": of_timm("twins_svt_small", ((1, 224, 224),), depths=(1, 1, 2, 1)),
    "visformer": of_timm("visformer_tiny", ((1, 224, 224),)),
    "vit_relpos": of_timm("vit_relpos_small_patch16_224", **SMALL_VIT),
    "vit_rope": of_timm("vit_small_patch16_rope_224", **SMALL_VIT),
    "volo": of_timm("volo_d1_224", ((1, 224, 224),)),
    "xception": of_timm("xception41p", ((1, 64, 64),)),
    "xcit": of_timm("xcit_nano_12_p16_224", ((2, 64, 64),), depth=2),
    "sequencer": of_timm("sequencer2d_s", ((1, 64, 64),), img_size=64, layers=(1, 1, 1, 1),
                         embed_dims=(32, 64, 64, 64), hidden_sizes=(16, 32, 32, 32)),
}
