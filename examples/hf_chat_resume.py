"""A chat that continues in the next process: `hf_chat_resume.py --store S MESSAGE`.

Only the store is kept between the turns. It has the tokens of the chat so far, and the keys and
values that the model made of these tokens. Each turn runs its own tokens only. Without a message,
the program runs two turns, each in its own process.

Needs torch, transformers, gguf and accelerate, and SmolLM2, which `make setup` puts in
.deps/models.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

MESSAGES = [
    "Please remember this: the code of the door is 4711.",
    "What is the code of the door?",
]
START = (  # The beginning of SmolLM2's own chat template.
    "<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
)


def turn(store: str, message: str) -> str:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import attndb
    import attndb.hf

    model_file = {
        "pretrained_model_name_or_path": Path(__file__).resolve().parents[1] / ".deps" / "models",
        "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf",
    }
    tokenizer = AutoTokenizer.from_pretrained(**model_file)
    model = AutoModelForCausalLM.from_pretrained(**model_file, dtype=torch.float32).eval()
    attndb.hf.use(model, tokenizer=tokenizer)
    with attndb.open(store) as db:
        said = tokenizer.encode(START)
        if any(context.name == "chat" for context in db.list()):
            # The model has not run the last generated token, <|im_end|>. The new tokens begin
            # with this token.
            said = [*db.tokens("chat").tolist(), *tokenizer.encode("<|im_end|>\n")]
        new = f"<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n"
        prompt = [*said, *tokenizer.encode(new)]
        cache, ids = attndb.hf.create_session(db, model, prompt)
        output = model.generate(**ids, past_key_values=cache, max_new_tokens=32, do_sample=False)
        cache.store(output, name="chat", replace=True, drop_base=True)
        print(f"[{len(prompt)} tokens, {cache.num_reused} reused]")
        return str(tokenizer.decode(output[0, len(prompt) :], skip_special_tokens=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("message", nargs="?")
    parser.add_argument("--store", help="the folder that keeps the chat")
    arguments = parser.parse_args()
    if arguments.message:
        if not arguments.store:
            parser.error("a message needs --store")
        print(turn(arguments.store, arguments.message))
        return
    with tempfile.TemporaryDirectory() as folder:
        for message in MESSAGES:
            command = [sys.executable, __file__, "--store", arguments.store or folder, message]
            answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            print(f"> {message}\n{answer}")
        assert "4711" in answer and " 0 reused" not in answer, "the chat was forgotten"


if __name__ == "__main__":
    main()
