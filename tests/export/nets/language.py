"""Networks that read words."""

from transformers import (AlbertConfig, AlbertModel, BartConfig, BartModel, BertConfig, BertModel, BigBirdConfig,
                          BigBirdModel, CLIPTextConfig, CLIPTextModelWithProjection, ConvBertConfig, ConvBertModel, Data2VecTextConfig,
                          Data2VecTextModel, DebertaConfig, DebertaModel, DebertaV2Config, DebertaV2Model,
                          DistilBertConfig, DistilBertModel, ElectraConfig, ElectraForPreTraining, EsmConfig, EsmModel,
                          FNetConfig, FNetModel, FunnelConfig, FunnelModel, IBertConfig, IBertModel, LukeConfig,
                          LukeModel, M2M100Config, M2M100Model, MarianConfig, MarianModel, MegatronBertConfig,
                          MegatronBertModel, MobileBertConfig, MobileBertModel, ModernBertConfig, ModernBertModel,
                          MPNetConfig, MPNetModel, NystromformerConfig, NystromformerModel, PegasusConfig, PegasusModel,
                          RemBertConfig, RemBertModel, RobertaConfig, RobertaForSequenceClassification, RoFormerConfig,
                          RoFormerModel, SqueezeBertConfig, SqueezeBertModel, T5Config, T5EncoderModel, T5Model,
                          XLMConfig, XLMModel, XLNetConfig, XLNetModel)

from .network import Network, Outputs, added_mask, ids, lengths_mask

WORDS = 200  # in a small vocabulary
HIDDEN = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
ENCODER = {"vocab_size": WORDS, "max_position_embeddings": 64, "pad_token_id": 0, **HIDDEN}
ONE_SIZE = ((2, 16),)
SIZES = ((2, 16), (3, 24), (1, 9))


def masked(batch: int, length: int) -> list:
    return [ids(WORDS, batch, length), lengths_mask(batch, length)]


def added(batch: int, length: int) -> list:
    return [ids(WORDS, batch, length), added_mask(batch, length)]


def added_causal(batch: int, length: int) -> list:
    return [ids(WORDS, batch, length), added_mask(batch, length, causal=True)]


def plain(batch: int, length: int) -> list:
    return [ids(WORDS, batch, length)]


def encoder(network, configuration, sizes=ONE_SIZE, outputs="last_hidden_state", attention="sdpa", inputs=None,
            **settings) -> Network:
    """An encoder that takes words and a mask.

    Of a mask of lengths transformers makes one for scores by indexing. With fixed sizes PNNX folds the indices and loses
    their axes; so the mask for scores is what goes in, then.
    """
    def build():
        model = network(configuration(attn_implementation=attention, **(ENCODER | settings)))
        return Outputs(model, "input_ids attention_mask", outputs)
    return Network(build, inputs or (added if len(sizes) == 1 else masked), sizes)


def full(network, configuration, outputs: str, **fixed) -> Network:
    """A network in the size of its family's base model, for 128 words."""
    def build():
        return Outputs(network(configuration()), "input_ids", outputs, **fixed)
    return Network(build, lambda batch, length: [ids(30000, batch, length)], ((1, 128),))


def t5(network=T5EncoderModel, sizes=ONE_SIZE, **settings) -> Network:
    """T5's encoder, or the whole of it, which takes the words of the answer, too."""
    whole = network is T5Model

    def build():
        model = network(T5Config(vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                                 decoder_start_token_id=0, **settings))
        names = "input_ids attention_mask" + (" decoder_input_ids" if whole else "")
        return Outputs(model, names, "last_hidden_state", **({"use_cache": False} if whole else {}))

    def inputs(batch: int, length: int) -> list:
        read = added(batch, length) if len(sizes) == 1 else masked(batch, length)
        return read + (plain(batch, length // 2) if whole else [])
    return Network(build, inputs, sizes)


def translator(network, configuration) -> Network:
    """An encoder and a decoder after BART: words and a mask, and the words of the answer."""
    def build():
        model = network(configuration(vocab_size=WORDS, d_model=64, encoder_layers=2, decoder_layers=2,
                                      encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                                      decoder_ffn_dim=128, max_position_embeddings=64, pad_token_id=0))
        return Outputs(model, "input_ids attention_mask decoder_input_ids",
                       "last_hidden_state encoder_last_hidden_state", use_cache=False)
    return Network(build, lambda batch, length: added(batch, length) + plain(batch, length // 2), ONE_SIZE)


def funnel() -> Network:
    def build():
        model = FunnelModel(FunnelConfig(vocab_size=WORDS, block_sizes=[1, 1], d_model=64, n_head=4, d_head=16, d_inner=128))
        return Outputs(model, "input_ids attention_mask", "last_hidden_state")
    return Network(build, masked, ONE_SIZE)


def fnet() -> Network:
    def build():
        model = FNetModel(FNetConfig(vocab_size=WORDS, max_position_embeddings=64, hidden_size=64, num_hidden_layers=2,
                                     intermediate_size=128))
        return Outputs(model, "input_ids", "last_hidden_state")
    return Network(build, plain, ONE_SIZE)


def xlnet() -> Network:
    def build():
        model = XLNetModel(XLNetConfig(vocab_size=WORDS, d_model=64, n_layer=2, n_head=4, d_inner=128))
        return Outputs(model, "input_ids attention_mask", "last_hidden_state", use_mems=False)
    return Network(build, masked, ONE_SIZE)


NETWORKS = {
    "bert": encoder(BertModel, BertConfig, outputs="last_hidden_state pooler_output"),
    "bert_eager": encoder(BertModel, BertConfig, attention="eager"),
    "bert_dynamic": encoder(BertModel, BertConfig, SIZES, outputs="last_hidden_state pooler_output"),
    "bert_base": full(BertModel, BertConfig, "last_hidden_state pooler_output"),
    "distilbert": encoder(DistilBertModel, DistilBertConfig, dim=64, hidden_dim=128, n_layers=2, n_heads=4),
    "roberta": encoder(RobertaForSequenceClassification, RobertaConfig, outputs="logits", num_labels=3),
    "roberta_dynamic": encoder(RobertaForSequenceClassification, RobertaConfig, SIZES, "logits", num_labels=3),
    "albert": encoder(AlbertModel, AlbertConfig, embedding_size=32),
    "electra": encoder(ElectraForPreTraining, ElectraConfig, outputs="logits", embedding_size=32),
    "deberta": encoder(DebertaModel, DebertaConfig, inputs=masked, attention="eager", relative_attention=True,
                       pos_att_type=["c2p", "p2c"], position_buckets=8, max_relative_positions=32),
    "deberta_v2": encoder(DebertaV2Model, DebertaV2Config, inputs=masked, attention="eager", relative_attention=True,
                          pos_att_type=["c2p", "p2c"], position_buckets=8, max_relative_positions=32, conv_kernel_size=3),
    "mpnet": encoder(MPNetModel, MPNetConfig, attention="eager"),
    "xlnet": xlnet(),
    "clip_text": encoder(CLIPTextModelWithProjection, CLIPTextConfig, outputs="text_embeds last_hidden_state",
                         inputs=added_causal, projection_dim=48, bos_token_id=1, eos_token_id=2),
    "t5_encoder": t5(),
    "t5_encoder_dynamic": t5(sizes=SIZES),
    "t5": t5(T5Model, feed_forward_proj="gated-silu"),
    "bart": translator(BartModel, BartConfig),
    "marian": translator(MarianModel, MarianConfig),
    "pegasus": translator(PegasusModel, PegasusConfig),
    "m2m100": translator(M2M100Model, M2M100Config),
    "big_bird": encoder(BigBirdModel, BigBirdConfig, attention="eager", attention_type="original_full"),
    "convbert": encoder(ConvBertModel, ConvBertConfig, attention="eager", embedding_size=64),
    "data2vec_text": encoder(Data2VecTextModel, Data2VecTextConfig),
    "esm": encoder(EsmModel, EsmConfig, SIZES, attention="eager", position_embedding_type="rotary", mask_token_id=2),
    "fnet": fnet(),
    "funnel": funnel(),
    "ibert": encoder(IBertModel, IBertConfig, attention="eager"),
    "luke": encoder(LukeModel, LukeConfig, attention="eager", entity_vocab_size=10),
    "megatron_bert": encoder(MegatronBertModel, MegatronBertConfig, attention="eager"),
    "mobilebert": encoder(MobileBertModel, MobileBertConfig, attention="eager", embedding_size=64,
                          intra_bottleneck_size=32),
    "modernbert": encoder(ModernBertModel, ModernBertConfig, attention="eager"),
    "nystromformer": encoder(NystromformerModel, NystromformerConfig, attention="eager", num_landmarks=4,
                             segment_means_seq_len=16, conv_kernel_size=5),
    "rembert": encoder(RemBertModel, RemBertConfig, attention="eager", input_embedding_size=32),
    "roformer": encoder(RoFormerModel, RoFormerConfig, attention="eager", embedding_size=64),
    "squeezebert": encoder(SqueezeBertModel, SqueezeBertConfig, attention="eager", embedding_size=64, q_groups=2,
                           k_groups=2, v_groups=2, post_attention_groups=1, intermediate_groups=2, output_groups=2),
    "xlm": encoder(XLMModel, XLMConfig, inputs=masked, attention="eager", emb_dim=64, n_layers=2, n_heads=4, n_words=WORDS),
}
