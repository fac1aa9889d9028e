"""The facts of a GGUF header by name: which key says what, and what llama.cpp assumes where the file is silent."""

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from localspec import nextn
from localspec.models import gguf_types as types
from localspec.models.errors import DamagedGGUF, plain

if TYPE_CHECKING:
    from localspec.models.gguf import Tensor, Value

MAX_LAYERS = 4096
"""Most layers a file may claim; llama.cpp itself stops at 512."""

_FIM = {
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
    "pad": ("fim_pad_token_id",),
    "repository": ("fim_rep_token_id",),
    "separator": ("fim_sep_token_id",),
}
"""Role to its keys below `tokenizer.ggml.`; the second is the older one, which llama.cpp lets win."""


class Facts:
    """Named facts over `metadata`, `lengths` and `tensors`. Counts are 0 and texts None where the file is silent,
    unless llama.cpp has a default, which is used."""

    metadata: "dict[str, Value]"
    lengths: dict[str, int]
    tensors: "tuple[Tensor, ...]"
    tokens: list[bytes] | None

    def validate(self) -> None:
        """Reads every fact once, so that a key of the wrong type is an error of reading (`DamagedGGUF`) and not of
        some later use."""
        for name, member in vars(Facts).items():
            if isinstance(member, property | cached_property):
                getattr(self, name)

    # -- reading keys ------------------------------------------------------------------------------------------------

    def _wrong(self, key: str, wanted: str) -> DamagedGGUF:
        return DamagedGGUF(f"the key {plain(key)} should be {wanted}")

    def _text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def _integer(self, key: str) -> int | None:
        value = self.metadata.get(key)
        if value is None and key not in self.lengths:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a whole number")
        return value

    def _flag(self, key: str) -> bool | None:
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "yes or no")
        return value

    def _of_model(self, key: str) -> int:
        return self._integer(f"{self.architecture}.{key}") or 0

    def _per_layer(self, key: str, otherwise: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A value for each layer, from one number or from a list of them."""
        name = f"{self.architecture}.{key}"
        value = self.metadata.get(name)
        if isinstance(value, tuple) and all(isinstance(n, int) and n >= 0 for n in value):
            if len(value) < self.block_count:
                raise self._wrong(name, f"a list of {self.block_count} numbers")
            return tuple(int(n) for n in value[: self.block_count])
        number = self._integer(name)
        return otherwise if number is None else (number,) * self.block_count

    def _special(self, keys: tuple[str, ...], default: int | None = None) -> int | None:
        """A token id; ids outside the vocabulary are ignored, as llama.cpp does."""
        found = default if default is not None and default < self.vocab_size else None
        for key in keys:
            value = self._integer(f"tokenizer.ggml.{key}")
            if value is not None and value < self.vocab_size:
                found = value
        return found

    # -- the model ---------------------------------------------------------------------------------------------------

    @cached_property
    def architecture(self) -> str:
        """Empty in files that are no models, and in later parts of a split one."""
        return self._text("general.architecture") or ""

    @property
    def general_type(self) -> str | None:
        """`model`, `adapter`, `mmproj`, `imatrix`, ...; older files are silent."""
        return self._text("general.type")

    @property
    def name(self) -> str | None:
        return self._text("general.name")

    @property
    def licence(self) -> str | None:
        return self._text("general.license")

    @property
    def split_no(self) -> int:
        """Which part of a split model this is, from 0."""
        return self._integer("split.no") or 0

    @property
    def split_count(self) -> int:
        """How many parts the model has; 0 for a whole one."""
        return self._integer("split.count") or 0

    @cached_property
    def quantisation(self) -> str | None:
        """As file names say it ("Q4_K_M"); from the most frequent tensor type where the file does not say."""
        kind = self._integer("general.file_type")
        known = types.FILE_TYPES.get(kind & ~types.GUESSED) if kind is not None else None
        if known or not self.tensors:
            return known
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.type] += tensor.size
        return sizes.most_common(1)[0][0]

    @cached_property
    def block_count(self) -> int:
        """Layers, the MTP layers included."""
        count = self._of_model("block_count")
        if count > MAX_LAYERS:
            raise DamagedGGUF(f"it claims {count:,} layers")
        return count

    @property
    def mtp_layers(self) -> int:
        """MTP heads as the file names them, whether it holds them or not."""
        return self._of_model("nextn_predict_layers")

    @cached_property
    def mtp_heads(self) -> int:
        """MTP heads that it holds and that llama.cpp can run: all or none."""
        heads = self.mtp_layers
        if heads > self.block_count or not nextn.can_run(self.architecture, heads):
            return 0
        needed = set(nextn.needed_tensors(self.block_count - heads, heads))
        return 0 if needed - {tensor.name for tensor in self.tensors} else heads

    @property
    def context_length(self) -> int:
        """Tokens the model was trained for."""
        return self._of_model("context_length")

    @property
    def embedding_length(self) -> int:
        return self._of_model("embedding_length")

    @cached_property
    def feed_forward_length(self) -> tuple[int, ...]:
        """For each layer."""
        return self._per_layer("feed_forward_length")

    @property
    def expert_feed_forward_length(self) -> int:
        return self._of_model("expert_feed_forward_length")

    @cached_property
    def head_count(self) -> tuple[int, ...]:
        """Query heads, for each layer."""
        return self._per_layer("attention.head_count")

    @cached_property
    def head_count_kv(self) -> tuple[int, ...]:
        """Key/value heads, for each layer; 0 in layers without attention."""
        return self._per_layer("attention.head_count_kv", self.head_count)

    @cached_property
    def key_length(self) -> int:
        """Head size of keys, elements."""
        return self._of_model("attention.key_length") or self._head_size

    @cached_property
    def value_length(self) -> int:
        return self._of_model("attention.value_length") or self._head_size

    @property
    def _head_size(self) -> int:
        heads = max(self.head_count, default=0)
        return self.embedding_length // heads if heads else 0

    @property
    def compressed_kv(self) -> bool:
        """Keys and values are kept as one compressed row (multi-head latent attention)."""
        return bool(self._of_model("attention.key_length_mla"))

    @property
    def shared_kv_layers(self) -> int:
        """Last layers that read the cache of earlier ones."""
        of_gemma3n = max(0, self.block_count - 20) if self.architecture == "gemma3n" else 0
        return self._of_model("attention.shared_kv_layers") or of_gemma3n

    @property
    def sliding_window(self) -> int:
        """Tokens the sliding-window layers see; 0: there are none."""
        return self._of_model("attention.sliding_window")

    @property
    def expert_count(self) -> int:
        return self._of_model("expert_count")

    @property
    def expert_used_count(self) -> int:
        return self._of_model("expert_used_count")

    @property
    def full_attention_interval(self) -> int:
        """In hybrids of this kind every n-th layer has attention, the others are recurrent."""
        return self._of_model("full_attention_interval")

    @property
    def ssm(self) -> dict[str, int]:
        """Sizes of the recurrent state: `conv_kernel`, `inner_size`, `state_size`, `group_count`, `time_step_rank`."""
        keys = ("conv_kernel", "inner_size", "state_size", "group_count", "time_step_rank")
        return {key: value for key in keys if (value := self._of_model(f"ssm.{key}"))}

    @property
    def wkv_head_size(self) -> int:
        return self._of_model("wkv.head_size")

    @property
    def token_shift_count(self) -> int:
        return self._of_model("token_shift_count")

    @property
    def shortconv_cache(self) -> int:
        return self._of_model("shortconv.l_cache")

    @property
    def kda_head_size(self) -> int:
        return self._of_model("kda.head_dim")

    @property
    def recurrent(self) -> bool:
        """No attention cache at all."""
        return self.architecture in types.RECURRENT

    @property
    def hybrid(self) -> bool:
        """Recurrent layers beside attention."""
        return self.architecture in types.HYBRID

    @property
    def has_encoder(self) -> bool:
        """An encoder reads the text, a decoder writes the answer."""
        return self.architecture in types.ENCODER_DECODERS

    @property
    def decoder_block_count(self) -> int:
        """Layers of the decoder beside an encoder, whose layers are `block_count`; 0 where there is none."""
        return (self._of_model("decoder_block_count") or self.block_count) if self.has_encoder else 0

    @property
    def longest_sequence(self) -> int:
        """Tokens of prompt and answer together that the model was trained for: an encoder's text is beside the
        decoder's."""
        return self.context_length * (2 if self.has_encoder else 1)

    # -- the vocabulary ----------------------------------------------------------------------------------------------

    @property
    def tokenizer_model(self) -> str | None:
        return self._text("tokenizer.ggml.model")

    @property
    def tokenizer_pre(self) -> str | None:
        return self._text("tokenizer.ggml.pre")

    @cached_property
    def vocabulary_type(self) -> str:
        """The kind of tokenizer llama.cpp makes: SPM, BPE, WPM, UGM, ...; the file's own word where it is unknown."""
        model = self.tokenizer_model or "none"
        return types.VOCABULARIES.get(model, model)

    @cached_property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, padding included."""
        listed = self.lengths.get("tokenizer.ggml.tokens")
        return self._of_model("vocab_size") if listed is None else listed

    @cached_property
    def bos_id(self) -> int | None:
        silent = self.tokenizer_model == "gemma4" or self.tokenizer_pre in types.NO_BEGIN_BY_PRE
        return self._special(("bos_token_id",), None if silent else types.DEFAULT_BEGIN.get(self.vocabulary_type))

    @cached_property
    def eos_id(self) -> int | None:
        silent = self.tokenizer_model == "gemma4"
        return self._special(("eos_token_id",), None if silent else types.DEFAULT_END.get(self.vocabulary_type))

    @property
    def eot_id(self) -> int | None:
        """End of turn."""
        return self._special(("eot_token_id",))

    @property
    def pad_id(self) -> int | None:
        return self._special(("padding_token_id",))

    @property
    def unk_id(self) -> int | None:
        return self._special(("unknown_token_id",))

    @property
    def add_bos(self) -> bool:
        """Whether a prompt gets the begin token."""
        if self.tokenizer_pre == "gemma4" or self.tokenizer_model == "gemma4":
            return True
        given = self._flag("tokenizer.ggml.add_bos_token")
        if given is not None:
            return given
        kind = self.vocabulary_type
        return kind in ("SPM", "WPM") or (kind == "BPE" and self.tokenizer_pre in types.ADDS_BEGIN_BY_PRE)

    @property
    def add_eos(self) -> bool:
        given = self._flag("tokenizer.ggml.add_eos_token")
        return self.vocabulary_type == "UGM" if given is None else given

    @cached_property
    def fim(self) -> dict[str, int]:
        """Fill-in-the-middle tokens by role: prefix, suffix, middle, pad, repository, separator. Many files give them
        only by their spelling, which is known when the tokens were read."""
        spelled: dict[str, int] = {}
        if self.tokens:
            wanted = {text.encode(): role for role, texts in types.FIM_TEXTS.items() for text in texts}
            for index, token in enumerate(self.tokens):
                if token in wanted:
                    spelled.setdefault(wanted[token], index)
        return {r: n for r, keys in _FIM.items() if (n := self._special(keys, spelled.get(r))) is not None}

    @property
    def chat_template(self) -> str | None:
        return self._text("tokenizer.chat_template")

    @property
    def chat_templates(self) -> dict[str, str]:
        """Further templates by name (`tool_use`, ...)."""
        start = "tokenizer.chat_template."
        return {key[len(start) :]: text for key in self.metadata if key.startswith(start) and (text := self._text(key))}
