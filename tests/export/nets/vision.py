"""Networks of transformers that see pictures and clips."""

import torch
from transformers import (CLIPConfig, CLIPModel, CLIPVisionConfig, CLIPVisionModelWithProjection, ConvNextConfig,
                          DepthAnythingConfig, DepthAnythingForDepthEstimation, DetrConfig, DetrForObjectDetection,
                          Dinov2Config, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel,
                          DINOv3ViTConfig, DINOv3ViTModel, GLPNConfig, GLPNForDepthEstimation, MaskFormerConfig,
                          MaskFormerForInstanceSegmentation, ResNetConfig, RTDetrConfig, RTDetrForObjectDetection,
                          RTDetrResNetConfig, SamVisionConfig, SegformerConfig, SegformerForSemanticSegmentation,
                          SiglipVisionConfig, SiglipVisionModel, Swin2SRConfig, Swin2SRForImageSuperResolution,
                          SwinConfig, TimesformerConfig, TimesformerModel, UperNetConfig,
                          UperNetForSemanticSegmentation, VideoMAEConfig, VideoMAEModel, ViTConfig, ViTModel,
                          VivitConfig, VivitModel, YolosConfig, YolosForObjectDetection)
from transformers.models.detr import modeling_detr
from transformers.models.sam.modeling_sam import SamVisionEncoder

from .network import Network, Outputs, ids, picture

HIDDEN = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SQUARE = ((2, 64, 64),)
BATCHES = ((2, 64, 64), (3, 64, 64), (1, 64, 64))
SIZES = ((2, 64, 64), (1, 96, 128), (3, 128, 96))


def of_transformers(network, configuration, outputs="last_hidden_state", sizes=SQUARE, **settings) -> Network:
    """A network of transformers that takes pictures."""
    def build():
        return Outputs(network(configuration(**settings)), "pixel_values", outputs)
    return Network(build, picture(), sizes)


def detr() -> Network:
    """A small ResNet with DETR's encoder, decoder and heads."""
    def build():
        backbone = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
                                out_features=["stage2"])
        model = DetrForObjectDetection(DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone,
            d_model=64, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10, num_labels=5))
        return Outputs(model, "pixel_values", "logits pred_boxes")
    # The mask of a picture without borders lets all places see all. PNNX cannot fold how transformers makes it.
    no_mask = (modeling_detr, "create_bidirectional_mask", lambda *_, **__: None)
    return Network(build, picture(), SQUARE, patches=(no_mask,))


def of_clips(network, configuration, **settings) -> Network:
    """A network of transformers that takes clips of four frames."""
    def build():
        model = network(configuration(image_size=32, **HIDDEN, **settings))
        return Outputs(model, "pixel_values", "last_hidden_state")
    return Network(build, lambda batch, size: [torch.randn(batch, 4, 3, size, size)], ((1, 32),))


def rt_detr() -> Network:
    """A small ResNet with RT-DETR's encoder and a decoder that samples the picture where it wants."""
    def build():
        backbone = RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1],
                                      layer_type="basic", out_features=STAGES[1:])
        model = RTDetrForObjectDetection(RTDetrConfig(
            backbone_config=backbone, encoder_hidden_dim=32, encoder_in_channels=[32, 32, 32], encoder_layers=1,
            encoder_ffn_dim=32, encoder_attention_heads=2, d_model=32, num_queries=8, decoder_in_channels=[32, 32, 32],
            decoder_ffn_dim=32, decoder_layers=1, decoder_attention_heads=2, decoder_n_points=2,
            anchor_image_size=None, eval_size=None))
        return Outputs(model, "pixel_values", "logits pred_boxes")
    return Network(build, picture(), SQUARE)


def maskformer() -> Network:
    """A small Swin with MaskFormer's two decoders."""
    def build():
        backbone = SwinConfig(image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=2,
                              out_features=STAGES)
        decoder = DetrConfig(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                             decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=8)
        model = MaskFormerForInstanceSegmentation(MaskFormerConfig(
            backbone_config=backbone, decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32))
        return Outputs(model, "pixel_values", "class_queries_logits masks_queries_logits")
    return Network(build, picture(), SQUARE)


def depth_anything() -> Network:
    """A small DINOv2 with the neck and head that make a depth of its layers."""
    def build():
        backbone = Dinov2Config(image_size=56, patch_size=8, out_indices=[1, 2, 3, 4], reshape_hidden_states=False,
                                apply_layernorm=True, **(HIDDEN | {"num_hidden_layers": 4, "mlp_ratio": 2}))
        model = DepthAnythingForDepthEstimation(DepthAnythingConfig(
            backbone_config=backbone, reassemble_hidden_size=64, patch_size=8, neck_hidden_sizes=[16, 32, 48, 64],
            fusion_hidden_size=32, head_hidden_size=16))
        return Outputs(model, "pixel_values", "predicted_depth")
    return Network(build, picture(), SQUARE)


def clip() -> Network:
    """Both towers, and how well each text fits each picture."""
    def build():
        text = {"vocab_size": 200, "max_position_embeddings": 64, "eos_token_id": 2, **HIDDEN}
        model = CLIPModel(CLIPConfig(text_config=text, vision_config=PATCHES, projection_dim=48))
        return Outputs(model, "input_ids pixel_values", "logits_per_image logits_per_text")
    return Network(build, lambda batch, length: [ids(200, batch, length), torch.randn(3, 3, 64, 64)], ((2, 8),))


STAGES = ["stage1", "stage2", "stage3", "stage4"]
PATCHES = {"image_size": 64, "patch_size": 8, **HIDDEN}

NETWORKS = {
    "clip_image": of_transformers(CLIPVisionModelWithProjection, CLIPVisionConfig,
                                  "image_embeds last_hidden_state", projection_dim=48, **PATCHES),
    "vit": of_transformers(ViTModel, ViTConfig, "last_hidden_state pooler_output", **PATCHES),
    "vit_dynamic": of_transformers(ViTModel, ViTConfig, "last_hidden_state pooler_output", BATCHES, **PATCHES),
    "dinov2": of_transformers(Dinov2Model, Dinov2Config, image_size=56, patch_size=8, **(HIDDEN | {"mlp_ratio": 2})),
    "sam_encoder": of_transformers(
        SamVisionEncoder, SamVisionConfig, hidden_size=64, output_channels=32, num_hidden_layers=2, num_attention_heads=4,
        image_size=128, patch_size=8, window_size=7, global_attn_indexes=[1], mlp_dim=128, sizes=((1, 128, 128),)),
    "detr": detr(),
    "yolos": of_transformers(YolosForObjectDetection, YolosConfig, "logits pred_boxes", image_size=[64, 64],
                             patch_size=8, num_detection_tokens=10, **HIDDEN),
    "segformer": of_transformers(
        SegformerForSemanticSegmentation, SegformerConfig, "logits", depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64],
        decoder_hidden_size=64, num_attention_heads=[1, 2, 3, 4], num_labels=5),
    "segformer_dynamic": of_transformers(
        SegformerForSemanticSegmentation, SegformerConfig, "logits", SIZES, depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=64, num_attention_heads=[1, 2, 3, 4], num_labels=5),
    "swin2sr": of_transformers(
        Swin2SRForImageSuperResolution, Swin2SRConfig, "reconstruction", image_size=32, embed_dim=32, depths=[2, 2],
        num_heads=[2, 2], window_size=8, sizes=((1, 32, 32),)),
    "dinov2_registers": of_transformers(Dinov2WithRegistersModel, Dinov2WithRegistersConfig, image_size=64, patch_size=8,
                                        **HIDDEN),
    "dinov3": of_transformers(DINOv3ViTModel, DINOv3ViTConfig, image_size=64, patch_size=8, **HIDDEN),
    "siglip_image": of_transformers(SiglipVisionModel, SiglipVisionConfig, "last_hidden_state pooler_output", **PATCHES),
    "depth_anything": depth_anything(),
    "glpn": of_transformers(GLPNForDepthEstimation, GLPNConfig, "predicted_depth", depths=[1, 1, 1, 1],
                            hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=16, num_attention_heads=[1, 2, 3, 4]),
    "maskformer": maskformer(),
    "rt_detr": rt_detr(),
    "upernet": of_transformers(
        UperNetForSemanticSegmentation, UperNetConfig, "logits", hidden_size=32, auxiliary_in_channels=48,
        auxiliary_channels=16, num_labels=5, backbone_config=ConvNextConfig(
            hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=STAGES)),
    "clip": clip(),
    "videomae": of_clips(VideoMAEModel, VideoMAEConfig, patch_size=8, num_frames=4),
    "timesformer": of_clips(TimesformerModel, TimesformerConfig, patch_size=8, num_frames=4),
    "vivit": of_clips(VivitModel, VivitConfig, tubelet_size=[2, 8, 8], num_frames=4),
}
