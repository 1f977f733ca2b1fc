"""The page of a card: thresholds of all learners, a heat map, learning curves, the command."""

import math
from importlib.metadata import version

from capax.cards.answers.card_rows import Card, Row
from capax.html import Markup, escaped, tag
from capax.report.charts import Chart
from capax.report.page import Finding, Page, Section, chart_frame
from capax.report.page_tables import paragraph, preformatted, table
from capax.report.sections import interval

_COLORS = tuple(f"series-{k}" for k in range(1, 7))
_DASHES = ("", "6 3", "2 3")


def card_page(card: Card, command: str) -> Page:
    """The page; `command` reproduces the card."""
    sections = [_thresholds(card, target) for target in card.target_names]
    if len(card.names) > 1 and card.rows:
        sections.append(_heat_map(card))
    if card.mixed:
        sections.append(_mixed(card))
    if card.times:
        sections.append(_times(card))
    if card.curves:
        sections.append(_learning(card))
    sections += [_protocol(card), _reproduce(card, command)]
    return Page(
        title="Inductive-bias card",
        lead="How many examples does each learner need to find the few bits that matter among T? "
        "All learners saw the same data.",
        findings=_findings(card),
        sections=tuple(sections),
        stores=(),
        footer=f"Made by Capax {version('capax')}. Nothing on this page comes from the network.",
    )


def _accuracy(card: Card) -> float:
    """The accuracy that is drawn: the highest."""
    return max((row.accuracy for row in card.rows), default=0.0)


def _findings(card: Card) -> tuple[Finding, ...]:
    top, findings = _accuracy(card), []
    for name in (card.measured or card.names)[:4]:
        rows = [r for r in card.rows if r.learner == name and r.accuracy == top]
        if rows:
            last = max(rows, key=lambda r: r.T)
            value = f"m* = {last.m_star}" if last.m_star else card.note(last) or "open"
            findings.append(Finding(value, f"{name}, {last.target}, T = {last.T}, {top:.0%}"))
    return tuple(findings)


def _style(card: Card, name: str) -> tuple[str, str]:
    if name not in card.names:
        return "muted", ""
    k = card.names.index(name)
    return _COLORS[k % len(_COLORS)], _DASHES[(k // len(_COLORS)) % len(_DASHES)]


def _thresholds(card: Card, target: str) -> Section:
    anchor = f"thresholds-{card.target_names.index(target) + 1}"
    charts = tuple(
        _threshold_chart(card, target, accuracy, f"{anchor}-{accuracy * 100:g}".replace(".", "-"))
        for accuracy in sorted({r.accuracy for r in card.rows}, reverse=True)
    )
    facts = card.targets.get(target, {})
    known = ", ".join(
        f"{name} {facts[key]}"
        for name, key in (("s =", "s"), ("leap", "leap"), ("degree", "degree"),
                          ("sensitivity", "sensitivity"))
        if key in facts
    )  # fmt: skip
    text = f"{facts.get('function', target)}: {known}. " if known else ""
    intro = paragraph(
        f"{text}m* is the smallest number of examples at which at least 80 % of the trials reach "
        "the accuracy. The floor is the number that the best possible learner needs. Hover for "
        "values."
    )
    body = "".join(
        tag("h3", f"{accuracy:.0%} accuracy") + chart_frame(chart)
        for accuracy, chart in zip(
            sorted({r.accuracy for r in card.rows}, reverse=True), charts, strict=True
        )
    )
    html = intro + body + _table(card, target) + tag("h3", "Which law?") + _laws(card, target)
    html += _troubles(card, target)
    return Section(anchor, target, f"Examples needed for {target}", html, charts=charts)


def _threshold_chart(card: Card, target: str, accuracy: float, id: str) -> Chart:
    rows = [r for r in card.rows if r.target == target and r.accuracy == accuracy]
    series: list[Chart] = []
    for name in dict.fromkeys(r.learner for r in rows):
        own = sorted((r for r in rows if r.learner == name and r.m_star), key=lambda r: r.T)
        if not own:
            continue
        color, dash = _style(card, name)
        shared: Chart = {"x": [r.T for r in own], "color": color}
        # two series in one group, because marks with whiskers cannot have a line
        series.append({**shared, "name": name, "group": name, "line": True, "dash": dash,
                       "y": [r.m_star for r in own]})  # fmt: skip
        series.append({**shared, "name": name, "group": name, "marks": True,
                       "y": [r.m_star for r in own],
                       "low": [r.low for r in own], "high": [r.high for r in own],
                       "notes": [card.note(r) for r in own]})  # fmt: skip
    lengths = sorted({r.T for r in rows})
    floors = {r.T: r.floor for r in rows}
    series.append({"name": "floor", "x": lengths, "y": [floors[T] for T in lengths],
                   "color": "muted", "line": True, "dash": "2 3"})  # fmt: skip
    title = f"Examples needed against T, {target}, {accuracy:.0%} accuracy"
    return _over_T(id, title, lengths, ("training examples m*", "m*"), series)


def _over_T(
    id: str, title: str, lengths: list[int], y: tuple[str, str], series: list[Chart]
) -> Chart:
    """A chart over the context length, both axes logarithmic; y: its label, long and short."""
    return {
        "id": id,
        "title": title,
        "x": {"label": "context length T", "short": "T", "log": True, "toggle": True,
              "ticks": lengths},
        "y": {"label": y[0], "short": y[1], "log": True, "toggle": True},
        "series": series,
        "rules": [],
        "hover": "nearest",
    }  # fmt: skip


def _table(card: Card, target: str) -> str:
    headers = ["learner", "T", "accuracy", "m*", "95% interval", "m*/floor", "solved", "rate", "s"]
    rows = [_cells(card, row) for row in card.rows if row.target == target]
    return table(headers, "lrrrlrrrr", rows)


def _cells(card: Card, row: Row) -> list[object]:
    closed = row.m_star is not None and row.low is not None and row.high is not None
    known = interval(row.low, row.high) if closed else card.note(row)
    ratio = f"{row.m_star / row.floor:.2f}" if row.m_star and row.floor else None
    rate = None if row.rate is None else f"{row.rate:g}"
    share = f"{row.solved_share:.0%}"
    return [row.learner, row.T, f"{row.accuracy:.0%}", row.m_star, known, ratio, share, rate,
            f"{row.seconds:.2g}"]  # fmt: skip


def _laws(card: Card, target: str) -> str:
    rows = [
        [w.learner, f"{w.accuracy:.0%}", w.law or "not settled",
         None if w.p_value is None else f"{w.p_value:.2g}", ", ".join(w.ruled_out)]
        for w in card.laws if w.target == target
    ]  # fmt: skip
    return table(["learner", "accuracy", "law", "fit p", "ruled out"], "lrlrl", rows)


def _troubles(card: Card, target: str) -> str:
    """Trials that ended with an error: they count as failed, and may change m*."""
    rows = [
        [t.learner, t.T, t.trials, t.reason]
        for t in card.troubles if t.target == target
    ]  # fmt: skip
    if not rows:
        return ""
    text = paragraph("They count as failed. If there are many, m* may be too large.")
    return (
        tag("h3", "Trials that ended with an error")
        + text
        + table(["learner", "T", "trials", "reason"], "lrrl", rows)
    )


def _heat_map(card: Card) -> Section:
    """Learner x target: m*/floor at the largest T; darker cells need more examples."""
    top, targets = _accuracy(card), card.target_names
    T = max(row.T for row in card.rows)
    head = "".join(tag("th", escaped(t), "number") for t in targets)
    body = ""
    for name in card.names:
        cells = "".join(_cell(card, name, target, T, top) for target in targets)
        body += tag("tr", tag("td", escaped(name)) + cells)
    grid = tag("thead", tag("tr", tag("th", "learner") + head)) + tag("tbody", body)
    html = paragraph(
        f"m* over the floor at T = {T}, {top:.0%} accuracy: 1 is the best possible."
    ) + tag("div", tag("table", grid, "heat"), "scroll")
    return Section("heat-map", "All targets", "Which learner is good at which target?", html)


def _cell(card: Card, name: str, target: str, T: int, accuracy: float) -> str:
    row = card.row(name, target, T, accuracy)
    if row is None:
        return tag("td", "", "number")
    if not row.m_star or not row.floor:
        return tag("td", escaped(_short(card.note(row))), "number")
    ratio = row.m_star / row.floor
    share = round(min(1.0, max(0.0, math.log(ratio) / math.log(50))) * 55)
    mixed = f"color-mix(in srgb, var(--series-1) {share}%, transparent)"
    return f'<td class="number" style="background: {mixed}">{ratio:.1f}</td>'


def _short(note: str) -> str:
    return "never" if note.startswith("does not reach") else note


def _times(card: Card) -> Section:
    """Steps to solve parities of s bits against T, one chart for each s."""
    first, bits = card.times[0], sorted({row.s for row in card.times})
    text = paragraph(
        f"The same learners on parities of s hidden bits, trained on {first.batch} fresh examples "
        f"at each step, for at most {first.limit} steps. The chart shows the median number of "
        "steps with its 95% interval. A run that was stopped counts as longer than its limit. The "
        "learning rate was chosen on separate trials."
    )
    charts = tuple(_time_chart(card, s) for s in bits)
    body = "".join(
        tag("h3", f"s = {s}") + chart_frame(chart) for s, chart in zip(bits, charts, strict=True)
    )
    rows = [
        [r.learner, r.T, r.s, r.words, None if r.rate is None else f"{r.rate:g}"]
        for r in card.times
    ]
    html = text + body + table(["learner", "T", "s", "steps, solved", "rate"], "lrrlr", rows)
    return Section(
        "times", "Steps", "Which learners learn parity, and how fast?", html, charts=charts
    )


def _time_chart(card: Card, s: int) -> Chart:
    rows = [r for r in card.times if r.s == s]
    lengths, series = sorted({r.T for r in rows}), []
    for name in dict.fromkeys(r.learner for r in rows if r.median is not None):
        own = [r for r in rows if r.learner == name and r.median is not None]
        color, dash = _style(card, name)
        shared: Chart = {"name": name, "group": name, "x": [r.T for r in own], "color": color,
                         "y": [r.median for r in own]}  # fmt: skip
        series.append({**shared, "line": True, "dash": dash})
        series.append({**shared, "marks": True, "low": [r.low or 1 for r in own],
                       "high": [r.high for r in own], "notes": [r.words for r in own]})  # fmt: skip
    title = f"Steps to solve a parity of {s} bits against T"
    return _over_T(f"times-{s}", title, lengths, ("median steps", "steps"), series)


def _mixed(card: Card) -> Section:
    """Which of two rules a learner prefers when both fit the sample."""
    text = paragraph(
        "The parity of two hidden bits and the parity of all T bits agree on every training "
        "example. The sample does not tell them apart, so the choice is the learner's own bias. "
        "On fresh inputs the two disagree half of the time. The table has the shares of trials in "
        "which at least 95 % of the answers follow the sparse rule, the dense rule, or neither."
    )
    rows = [
        [r.learner, r.T, r.m, r.trials, None if r.rate is None else f"{r.rate:g}",
         *(f"{share:.0%}" for share in (r.sparse, r.dense, r.neither))]
        for r in card.mixed
    ]  # fmt: skip
    headers = ["learner", "T", "m", "trials", "rate", "sparse", "dense", "neither"]
    html = text + table(headers, "lrrrrrrr", rows)
    return Section("mixed", "Mixed parity", "Two rules fit: which one is learnt?", html)


def _learning(card: Card) -> Section:
    charts = []
    for k, target in enumerate(dict.fromkeys(c.target for c in card.curves), start=1):
        series = []
        for curve in (c for c in card.curves if c.target == target):
            color, dash = _style(card, curve.learner)
            series.append({"name": f"{curve.learner}, T = {curve.T}, m = {curve.m}", "line": True,
                           "x": list(curve.step), "y": list(curve.accuracy), "color": color,
                           "dash": dash, "group": curve.learner})  # fmt: skip
        charts.append({
            "id": f"learning-{k}", "title": f"Validation accuracy during training, {target}",
            "x": {"label": "step", "short": "step", "log": False, "from": 0},
            "y": {"label": "validation accuracy", "short": "accuracy", "log": False},
            "series": series, "rules": [], "hover": "nearest",
        })  # fmt: skip
    html = paragraph("Mean over trials around the threshold, at the largest T measured.")
    html += "".join(tag("h3", escaped(c["title"])) + chart_frame(c) for c in charts)
    return Section("learning", "Learning", "Learning curves", html, charts=tuple(charts))


def _protocol(card: Card) -> Section:
    shown = ("steps", "eval_every", "rates", "tuning_trials", "validation_size", "m_high",
             "max_trials", "more_trials", "support", "noise", "device", "made")  # fmt: skip
    rows = [[name, card.protocol[name]] for name in shown if name in card.protocol]
    counts = [
        [name, ", ".join(f"{n:,} at T = {T}" for T, n in about.get("parameters", {}).items() if n)]
        for name, about in card.learners.items()
    ]
    html = (
        paragraph(
            "Every learner has the same seeds, supports and examples. Learners with gradients use "
            "full-batch AdamW, with the learning rate that was best on separate seeds; all others "
            "stop by their own rule. A trial is one fit."
        )
        + table(["setting", "value"], "ll", rows)
        + tag("h3", "Parameters")
        + table(["learner", "number"], "ll", [row for row in counts if row[1]])
    )
    return Section("protocol", "Protocol", "How it was measured", html)


def _reproduce(card: Card, command: str) -> Section:
    names = ", ".join(card.measured) or "none"
    cite = (
        "@software{capax, title = {Capax: inductive-bias cards}, "
        f"version = {{{version('capax')}}}}}"
    )
    html = (
        paragraph(f"Measured here: {names}. All other rows are from the package's reference card.")
        + preformatted(command)
        + paragraph(
            Markup(
                "The question comes from <i>Inductive Biases and Variable Creation in "
                "Self-Attention Mechanisms</i> (Edelman, Goel, Kakade, Zhang, ICML 2022)."
            )
        )
        + preformatted(cite)
    )
    return Section("reproduce", "Reproduce", "How to reproduce and cite this card", html)
