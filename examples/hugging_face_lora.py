"""A model of Hugging Face with LoRA: base and A are frozen, B alone is trained and sent.

    pip install 'favano[huggingface]'
    python examples/hugging_face_lora.py

With one A for all clients, the mean of their adapters is the adapter of the mean: the server's step
is linear in what clients send, and the audit of who trained the model is exact (FFA-LoRA, Sun et
al. 2024). The model is small and untrained here; yours comes from `from_pretrained`.
"""

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

import favano

WORDS, LENGTH, CLIENTS = 32, 16, 8


def network():
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": LENGTH, "vocab_size": WORDS}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False)
    adapters = LoraConfig(r=8, target_modules=["c_attn", "lm_head"], fan_in_fan_out=True)
    model = get_peft_model(GPT2LMHeadModel(config), adapters)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_B" in name)
    return model


def texts(client, count):
    """Tokens that go up by a step of the client, from anywhere; the labels are the tokens."""
    draw = torch.Generator().manual_seed(client)
    start = torch.randint(WORDS, (count, 1), generator=draw)
    tokens = (start + (1 + client % 2) * torch.arange(LENGTH)) % WORDS
    return {"input_ids": tokens, "labels": tokens}


def main(horizon=400):
    model = network()
    train = [texts(client, 20 + 10 * client) for client in range(CLIENTS)]
    problem = favano.Problem(model, train, texts(100, 100), batch_size=8)
    fleet = favano.Fleet.two_speeds(CLIENTS, fast=0.5)
    keys = {"selected": 3, "learning_rate": 2.0, "horizon": horizon}
    result = favano.simulate("favano", problem, fleet, **keys)
    trained = sum(tensor.numel() for tensor in result.models[0].values())
    every = sum(parameter.numel() for parameter in model.parameters())
    print(f"loss {result.rows[0].loss:.2f} -> {result.rows[-1].loss:.2f}")
    print(f"{trained:,} of {every:,} numbers are trained, kept and sent; {result.audit.verdict}")
    return result


if __name__ == "__main__":
    main()
