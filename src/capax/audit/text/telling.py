"""The ten heads to look at first, in words.

If heads were taken out, these are the heads whose removal raises the loss most. Otherwise they are
the heads with the largest weight on a single token that is neither near nor the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capax.errors import counted

SHOWN = 10
Head = Mapping[str, Any]


def telling_heads(rows: Iterable[Head], most: int = SHOWN) -> list[Head]:
    """The most telling rows first; an empty list if no text was read."""
    read = [row for row in rows if row.get("looks_at")]
    by = "loss_difference" if _measured(read) else "far_peak"
    known = [row for row in read if row.get(by) is not None]
    return sorted(known, key=lambda row: -row[by])[:most]


def why_telling(rows: Sequence[Head], about: Mapping[str, Any]) -> str:
    """How the heads were chosen, and the meaning of the numbers beside them."""
    done = about["ablation"]
    if not done["heads"]:
        return (
            f"No head was taken out: {done['reason']}. Shown are the heads with the largest mean "
            "weight on one token that is more than 8 away and not the first."
        )
    if done["heads"] == done["of"]:
        taken = f"All {done['of']} heads were taken out, one at a time"
    else:
        taken = (f"{done['heads']} of {done['of']} heads were taken out, one at a time, chosen by "
                 "the derivative of the loss on other pieces of the text")  # fmt: skip
    sure = sum(row.get("loss_difference_low") is not None and row["loss_difference_low"] > 0
               for row in rows)  # fmt: skip
    return (
        f"{taken} (output set to 0). The number is the rise of the loss per {done['loss']}, "
        f"in nats, over {done['pieces']} pieces of up to {done['piece_tokens']} tokens; the "
        f"intervals hold together at 95 %. The interval lies above 0 for {sure} of these heads."
    )


def looks_in_words(row: Head) -> str:
    """`first token 62 %, "." 11 %`."""
    return ", ".join(f"{_quoted(one['word'])} {100 * one['share']:.0f} %"
                     for one in row["looks_at"])  # fmt: skip


def example_in_words(example: Mapping[str, Any]) -> str:
    """`from "bank" to "river", 45 back (0.83)`."""
    back = example["back"]
    where = "itself" if back == 0 else f"{abs(back)} {'back' if back > 0 else 'ahead'}"
    return (
        f"from {_quoted(example['from'])} to {_quoted(example['to'])}, {where} "
        f"({example['weight']:.2f})"
    )


def loss_in_words(row: Head) -> str:
    """`+0.12 (0.05 to 0.19)`, or a dash if the head was not taken out."""
    if row.get("loss_difference") is None:
        return "-"
    low, high = row["loss_difference_low"], row["loss_difference_high"]
    return f"{row['loss_difference']:+.3f} ({low:.3f} to {high:.3f})"


def reading_in_words(about: Mapping[str, Any]) -> str:
    """The number of tokens of the text, and why the model read another number."""
    if about["every_line_alone"]:
        why = ""
    elif about["attention"] == "causal":
        why = " (one long window from the beginning, and short ones from all over the text)"
    else:
        why = " (overlapping windows of every length, which a bidirectional model needs)"
    return (
        f"The text has {counted(about['text_tokens'], 'token')}. The model read "
        f"{counted(about['tokens_read'], 'token')} in {counted(about['windows'], 'window')} of "
        f"up to {about['longest_context']} tokens{why}. Rows kept per head: "
        f"{about['rows_per_head']}. Shares and n95 are means over the longer half of the contexts."
    )


def _measured(rows: Sequence[Head]) -> bool:
    return any(row.get("loss_difference") is not None for row in rows)


def _quoted(word: str) -> str:
    return word if word == "first token" else f'"{word[:30]}"'
