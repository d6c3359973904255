"""How byte-level BPE vocabularies cut a text into words before merging, by the name in `tokenizer.ggml.pre`. The
expressions are those of llama.cpp's vocabulary loader; a name that is not here has no exact counts.
"""

_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_ONE_DIGIT = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _TAIL
_ONE_DIGIT_MARKS = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _TAIL
_THREE_DIGITS = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _TAIL
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"

SPLITS: dict[str, tuple[str, ...]] = {
    "qwen2": (_ONE_DIGIT,),
    "deepseek-r1-qwen": (_ONE_DIGIT,),
    "stablelm2": (_ONE_DIGIT,),
    "qwen35": (_ONE_DIGIT_MARKS,),
    "llama-bpe": (_THREE_DIGITS,),
    "llama3": (_THREE_DIGITS,),
    "llama-v3": (_THREE_DIGITS,),
    "glm4": (_THREE_DIGITS,),
    "chatglm-bpe": (_THREE_DIGITS,),
    "smaug-bpe": (_THREE_DIGITS,),
    "dbrx": (_THREE_DIGITS,),
    "gpt-2": (_GPT2,),
    "olmo": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "command-r": (r"\p{N}", _GPT2),
    "codeshell": (r"\p{N}", _GPT2),
}
"""The expressions are applied one after the other, each to the pieces of the one before."""

WHOLE_WORDS_FIRST = frozenset({"llama-bpe", "llama3", "llama-v3", "glm4", "chatglm-bpe"})
"""Vocabularies in which a word that is a token of its own is never merged from parts."""
