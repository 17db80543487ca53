#!/usr/bin/env python3
"""Tells whether object code loads AMX tile configurations that were never written.

GCC 12.2 (Debian 12's) thinks that _tile_loadconfig reads 8 of the 64 bytes that it reads, and drops
the stores to the rest (GCC bug 114098, mended in GCC 11.5, 12.4, 13.3 and 14): llama.cpp's first
product of matrices then ends the process. A version tells little of what a distribution mended, so
the code itself is looked at.

  amx.py OBJECT...            a line for each load that is wrong or can't be judged; exit code 1
                              if there is any, or (with nothing on stdout) a file can't be read
  amx.py --flags COMPILER...  the flags with which llama.cpp must be compiled: none if every
                              compiler writes its stores (or has no AMX), else those that leave
                              AMX out

A load is right if, in its function and before it, something other than zeros is stored to the bytes
of its operand that name each tile's columns (16 to 31) and rows (48 to 55).
"""

import pathlib
import re
import subprocess
import sys
import tempfile

WITHOUT_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")

# What llama.cpp does before its first use of tiles, in our words.
PROBE = r"""
#include <immintrin.h>
struct Config {
  unsigned char palette, start_row, reserved[14];
  unsigned short columns[16];
  unsigned char rows[16];
};
void Use(int index) {
  static thread_local bool done = false;
  if (done) return;
  alignas(64) Config config = {};
  config.palette = 1;
  for (int tile = 0; tile < 4; ++tile) config.rows[tile] = 8, config.columns[tile] = 64;
  config.rows[5] = static_cast<unsigned char>(index), config.columns[5] = 32;
  _tile_loadconfig(&config);
  done = true;
}
"""

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(\S+)\s*(.*)$")
_MEMORY = re.compile(r"^(-?0x[0-9a-f]+)?\((%\w+)\)$")
_WIDTHS = {"movb": 1, "movw": 2, "movl": 4, "movq": 8, "movabs": 8, "movd": 4, "vmovd": 4,
           "vmovq": 8, "vmovss": 4, "vmovsd": 8, "movlps": 8, "movhps": 8, "vmovlps": 8,
           "vmovhps": 8}
_VECTORS = {"x": 16, "y": 32, "z": 64}
_COLUMNS, _ROWS = range(16, 32), range(48, 56)


def operands(text):
    """The operands of an instruction in AT&T order, without objdump's comments."""
    return re.findall(r"(?:[^,()]|\([^)]*\))+", text.split("#")[0].strip())


def place(operand):
    """(base register, offset) of an operand in memory; None of any other."""
    match = _MEMORY.match(operand)
    return (match.group(2), int(match.group(1) or "0", 16)) if match else None


def store_width(mnemonic, source):
    if mnemonic in _WIDTHS:
        return _WIDTHS[mnemonic]
    if re.match(r"%[xyz]mm", source):
        return _VECTORS[source[1]]
    if mnemonic == "mov":
        return {"r": 8, "e": 4}.get(source[1:2], 1 if source.endswith("l") else 2)
    return 0


def vector(register):
    """%xmm3, %ymm3 and %zmm3 are one register."""
    return re.sub(r"%[xyz]mm", "%mm", register)


def written(code, base, offset):
    """The bytes of the 64 at offset(base) to which `code` stores anything but zeros."""
    zeros, found = set(), set()
    for mnemonic, text in code:
        words = operands(text)
        if not words:
            continue
        target, source = words[-1], words[0]
        at = place(target)
        if at and len(words) == 2 and at[0] == base and "mov" in mnemonic:
            if vector(source) not in zeros and source != "$0x0":
                first = at[1] - offset
                found |= set(range(first, first + store_width(mnemonic, source)))
        elif not at and "xor" in mnemonic and len(set(map(vector, words))) == 1:
            zeros.add(vector(target))
        elif not at and not mnemonic.startswith(("cmp", "test")):
            zeros.discard(vector(target))
    return found


def faults_in(name, code):
    """The wrong loads of one function: a list of (mnemonic, operands) in their order."""
    for i, (mnemonic, text) in enumerate(code):
        if mnemonic != "ldtilecfg":
            continue
        if "%rip" in text:
            continue  # A constant of the program.
        at = place(operands(text)[0])
        for earlier, earlier_text in reversed(code[:i]):
            words = operands(earlier_text)
            if at and earlier == "lea" and words[-1] == at[0] and place(words[0]):
                at = (place(words[0])[0], place(words[0])[1] + at[1])
                break
        if not at:
            yield f"{name}: ldtilecfg {text}: can't be judged"
            continue
        found = written(code[:i], *at)
        missing = [what for what, part in (("columns", _COLUMNS), ("rows", _ROWS))
                   if not found & set(part)]
        if missing:
            yield (f"{name}: ldtilecfg {text}: the {' and the '.join(missing)} of its tiles were "
                   "never stored (GCC bug 114098)")


def faults(disassembly):
    """The wrong loads in what objdump -d --no-show-raw-insn prints."""
    name, code = "", []
    for line in disassembly.splitlines():
        function = _FUNCTION.match(line)
        if function:
            yield from faults_in(name, code)
            name, code = function.group(1), []
        else:
            instruction = _INSTRUCTION.match(line)
            if instruction:
                code.append(instruction.groups())
    yield from faults_in(name, code)


def faults_of(path):
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())  # Exit code 1, and nothing on stdout.
    return list(faults(done.stdout))


def is_wrong(compiler):
    """Whether `compiler` drops stores. One that can't compile for AMX has none to get wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, code = pathlib.Path(folder, "probe.cc"), pathlib.Path(folder, "probe.o")
        source.write_text(PROBE)
        done = subprocess.run([compiler, "-O3", "-std=c++17", "-march=sapphirerapids", "-c",
                               str(source), "-o", str(code)], capture_output=True, check=False)
        return done.returncode == 0 and bool(faults_of(code))


def main(arguments):
    if arguments[:1] == ["--flags"]:
        if any(is_wrong(compiler) for compiler in arguments[1:]):
            print(*WITHOUT_AMX)
        return 0
    found = [f"{path}: {fault}" for path in arguments for fault in faults_of(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
