"""Questions about a document, which the model reads once: `hf_document_qa.py [QUESTION ...]`.

For the first question the model reads the document, and the program stores the result. Each later
question starts from the stored document and runs its own few tokens. This also holds in a later
process with the same --store.

Needs torch, transformers, gguf and accelerate, and SmolLM2, which `make setup` puts in
.deps/models.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import attndb
import attndb.hf

ROOT = Path(__file__).resolve().parents[1]
MODEL = {
    "pretrained_model_name_or_path": ROOT / ".deps" / "models",
    "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf",
}
QUESTIONS = {  # Each with a word of its answer.
    "When was the Skerry Point lighthouse built?": "1874",
    "Who is the captain of the Petrel?": "Tom Garrick",
    "What is the name of the lighthouse cat?": "Biscuit",
}


def ask(db: attndb.DB, model: Any, tokenizer: Any, document: str, question: str) -> str:
    chat = [{"role": "user", "content": f"{document}\n\nAnswer shortly: {question}"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
    start = time.perf_counter()
    cache, ids = attndb.hf.create_session(db, model, prompt)
    with cache:
        output = model.generate(
            **ids, past_key_values=cache, max_new_tokens=32, do_sample=False
        )
        if cache.num_reused == 0:
            cache.store(name="document")
        seconds = time.perf_counter() - start
        num_prompt = ids["input_ids"].shape[1]
        print(f"\n> {question}")
        print(f"[{num_prompt} tokens, {cache.num_reused} reused, {seconds:.1f} s]")
    return str(tokenizer.decode(output[0, num_prompt:], skip_special_tokens=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--document", type=Path, default=ROOT / "examples/data/lighthouse.md")
    parser.add_argument("--store", help="folder; without it, one that is removed at the end")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(**MODEL)
    model = AutoModelForCausalLM.from_pretrained(**MODEL, dtype=torch.float32).eval()
    attndb.hf.use(model, tokenizer=tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        with attndb.open(arguments.store or folder) as db:
            for question in arguments.questions:
                answer = ask(db, model, tokenizer, arguments.document.read_text(), question)
                print(answer)
                assert QUESTIONS.get(question, "") in answer, "the model has lost the document"


if __name__ == "__main__":
    main()
