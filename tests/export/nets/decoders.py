"""Networks that write words: decoders of the GPT and Llama kinds, and those with a state instead of attention."""

from transformers import (BioGptConfig, BioGptForCausalLM, CodeGenConfig, CodeGenForCausalLM, CohereConfig,
                          CohereForCausalLM, CTRLConfig, CTRLLMHeadModel, FalconConfig, FalconForCausalLM, Gemma2Config, Gemma2ForCausalLM,
                          Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM, GPT2Config,
                          GPT2LMHeadModel, GPTJConfig, GPTJForCausalLM, GPTNeoConfig, GPTNeoForCausalLM, GPTNeoXConfig,
                          GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM,
                          MistralConfig, MistralForCausalLM, MptConfig, MptForCausalLM, Olmo2Config, Olmo2ForCausalLM,
                          OPTConfig, OPTForCausalLM, Phi3Config, Phi3ForCausalLM, PhiConfig, PhiForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, RwkvConfig, RwkvForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM, StableLmConfig, StableLmForCausalLM, Starcoder2Config,
                          Starcoder2ForCausalLM, XGLMConfig, XGLMForCausalLM)

from .language import HIDDEN, ONE_SIZE, SIZES, WORDS, full, masked, plain
from .network import Network, Outputs

DECODER = {"vocab_size": WORDS, "max_position_embeddings": 64, "tie_word_embeddings": False,
           "bos_token_id": 1, "eos_token_id": 2, **HIDDEN}
GROUPED = {"num_key_value_heads": 2}
OLD = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}


def decoder(network, configuration, sizes=ONE_SIZE, attention="sdpa", **settings) -> Network:
    """A decoder that takes words and gives the scores of the next."""
    def build():
        model = network(configuration(attn_implementation=attention, **(DECODER | settings)))
        return scores(model, sizes)
    return Network(build, plain if len(sizes) == 1 else masked, sizes)


def scores(model, sizes) -> Outputs:
    """Words, and a mask where the length is dynamic: else transformers looks for several texts in a row, by `torch.diff`."""
    names = "input_ids" if len(sizes) == 1 else "input_ids attention_mask"
    return Outputs(model, names, "logits", use_cache=False)


def gpt2(sizes=ONE_SIZE, attention="sdpa") -> Network:
    def build():
        model = GPT2LMHeadModel(GPT2Config(attn_implementation=attention, vocab_size=WORDS, bos_token_id=1,
                                           eos_token_id=2, **OLD))
        return scores(model, sizes)
    return Network(build, plain if len(sizes) == 1 else masked, sizes)


def opt() -> Network:
    return decoder(OPTForCausalLM, OPTConfig, ffn_dim=128, word_embed_proj_dim=64, do_layer_norm_before=True)


def mamba() -> Network:
    def build():
        model = MambaForCausalLM(MambaConfig(vocab_size=WORDS, hidden_size=32, state_size=8, num_hidden_layers=2,
                                             tie_word_embeddings=False))
        return Outputs(model, "input_ids", "logits", use_cache=False)
    return Network(build, plain, ((2, 6),))


NETWORKS = {
    "gpt2": gpt2(),
    "gpt2_eager": gpt2(attention="eager"),
    "gpt2_dynamic": gpt2(SIZES),
    "gpt2_base": full(GPT2LMHeadModel, GPT2Config, "logits", use_cache=False),
    "gpt_neox": decoder(GPTNeoXForCausalLM, GPTNeoXConfig),
    "opt": opt(),
    "llama": decoder(LlamaForCausalLM, LlamaConfig, **GROUPED),
    "llama_eager": decoder(LlamaForCausalLM, LlamaConfig, attention="eager", **GROUPED),
    "llama_dynamic": decoder(LlamaForCausalLM, LlamaConfig, SIZES, **GROUPED),
    "qwen2": decoder(Qwen2ForCausalLM, Qwen2Config, **GROUPED),
    "mistral": decoder(MistralForCausalLM, MistralConfig, sliding_window=6, **GROUPED),
    "phi": decoder(PhiForCausalLM, PhiConfig),
    "mamba": mamba(),
    "phi3": decoder(Phi3ForCausalLM, Phi3Config, pad_token_id=0, **GROUPED),
    "qwen3": decoder(Qwen3ForCausalLM, Qwen3Config, head_dim=16, **GROUPED),
    "gemma": decoder(GemmaForCausalLM, GemmaConfig, head_dim=16, **GROUPED),
    "gemma2": decoder(Gemma2ForCausalLM, Gemma2Config, attention="eager", head_dim=16, sliding_window=6, **GROUPED),
    "gemma3": decoder(Gemma3ForCausalLM, Gemma3TextConfig, head_dim=16, sliding_window=6, **GROUPED),
    "olmo2": decoder(Olmo2ForCausalLM, Olmo2Config, **GROUPED),
    "cohere": decoder(CohereForCausalLM, CohereConfig, **GROUPED),
    "stablelm": decoder(StableLmForCausalLM, StableLmConfig, **GROUPED),
    "starcoder2": decoder(Starcoder2ForCausalLM, Starcoder2Config, **GROUPED),
    "smollm3": decoder(SmolLM3ForCausalLM, SmolLM3Config, pad_token_id=0, **GROUPED),
    "gptj": decoder(GPTJForCausalLM, GPTJConfig, attention="eager", rotary_dim=8, **OLD),
    "gpt_neo": decoder(GPTNeoForCausalLM, GPTNeoConfig, attention="eager", attention_types=[[["global", "local"], 1]],
                       num_layers=2, num_heads=4, window_size=4),
    "codegen": decoder(CodeGenForCausalLM, CodeGenConfig, attention="eager", rotary_dim=8, n_ctx=64, **OLD),
    "mpt": decoder(MptForCausalLM, MptConfig, attention="eager", d_model=64, n_heads=4, n_layers=2, expansion_ratio=2,
                   max_seq_len=64),
    "falcon": decoder(FalconForCausalLM, FalconConfig, alibi=True, multi_query=True),
    "xglm": decoder(XGLMForCausalLM, XGLMConfig, attention="eager", d_model=64, num_layers=2, attention_heads=4,
                    ffn_dim=128),
    "biogpt": decoder(BioGptForCausalLM, BioGptConfig),
    "ctrl": decoder(CTRLLMHeadModel, CTRLConfig, dff=128, **OLD),
    "rwkv": decoder(RwkvForCausalLM, RwkvConfig, attention="eager", attention_hidden_size=64),
}
