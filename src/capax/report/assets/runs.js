// The table of runs: every number of the page links to its runs here.
// Rows are arrays in the order of `columns`; a run's full spec is its store's spec with its changes.

const PAGE = 25;

function mountRuns(root, stores) {
  const state = { root, runs: allRuns(stores), filter: {}, page: 0 };
  for (const field of ["store", "panel", "T", "m", "outcome"]) mountFilter(state, field);
  root.querySelector("[data-filter=text]").addEventListener("input", (event) => setFilter(state, { text: event.target.value.trim() || undefined }));
  root.querySelector("[data-page=back]").addEventListener("click", () => turn(state, -1));
  root.querySelector("[data-page=next]").addEventListener("click", () => turn(state, 1));
  root.querySelector("[data-page=all]").addEventListener("click", () => setFilter(state, null));
  document.addEventListener("trace", (event) => {
    setFilter(state, null);
    setFilter(state, event.detail);
    root.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-trace]");
    if (!link) return;
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("trace", { detail: JSON.parse(link.dataset.trace) }));
  });
  renderRuns(state);
}

function allRuns(stores) {
  return stores.flatMap((store) =>
    store.rows.map((row) => {
      const run = Object.fromEntries(store.columns.map((column, i) => [column, row[i]]));
      return { ...run, store: store.name, owner: store };
    }),
  );
}

function mountFilter(state, field) {
  const select = state.root.querySelector(`select[data-filter=${field}]`);
  const values = [...new Set(state.runs.map((run) => run[field]))].filter((value) => value !== null);
  values.sort((a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b))));
  for (const value of values) select.append(new Option(String(value), JSON.stringify(value)));
  select.addEventListener("change", () => setFilter(state, { [field]: select.value ? JSON.parse(select.value) : undefined }));
}

function setFilter(state, change) {
  state.filter = change === null ? {} : { ...state.filter, ...change };
  state.page = 0;
  for (const select of state.root.querySelectorAll("select")) {
    const value = state.filter[select.dataset.filter];
    select.value = value === undefined ? "" : JSON.stringify(value);
  }
  state.root.querySelector("[data-filter=text]").value = state.filter.text ?? "";
  renderRuns(state);
}

function turn(state, step) {
  state.page += step;
  renderRuns(state);
}

function chosenRuns(state) {
  const { text, ...exact } = state.filter;
  const wanted = Object.entries(exact).filter(([, value]) => value !== undefined);
  return state.runs.filter(
    (run) => wanted.every(([field, value]) => run[field] === value) && (!text || run.run_id.includes(text) || run.trial_id.includes(text)),
  );
}

function renderRuns(state) {
  const runs = chosenRuns(state);
  const pages = Math.max(1, Math.ceil(runs.length / PAGE));
  state.page = Math.min(pages - 1, Math.max(0, state.page));
  const body = state.root.querySelector("tbody");
  body.replaceChildren(...runs.slice(state.page * PAGE, (state.page + 1) * PAGE).flatMap(runRows));
  const trials = new Set(runs.map((run) => run.trial_id));
  const solved = new Set(runs.filter((run) => run.outcome === "solved").map((run) => run.trial_id));
  state.root.querySelector(".count").textContent =
    `${counted(runs.length, "run")} of ${counted(trials.size, "trial")}, ${counted(solved.size, "trial")} solved` + (pages > 1 ? ` · page ${state.page + 1} of ${pages}` : "");
  state.root.querySelector("[data-page=back]").disabled = state.page === 0;
  state.root.querySelector("[data-page=next]").disabled = state.page === pages - 1;
}

function runRows(run) {
  const row = document.createElement("tr");
  const toggle = document.createElement("button");
  toggle.type = "button";
  toggle.className = "run-id";
  toggle.textContent = run.run_id.slice(0, 12);
  toggle.setAttribute("aria-expanded", false);
  const cells = [toggle, run.T, run.m, run.trial_id.slice(0, 8), run.restart, run.outcome, run.solved_step ?? "", formatAccuracy(run.validation_accuracy), run.seconds === null ? "" : formatNumber(run.seconds)];
  cells.forEach((content, i) => {
    const cell = row.insertCell();
    cell.className = ["", "number", "number", "wide", "number wide", `outcome ${run.outcome}`, "number wide", "number", "number wide"][i];
    cell.append(content);
  });
  const detail = document.createElement("tr");
  detail.hidden = true;
  toggle.addEventListener("click", () => {
    if (!detail.cells.length) fillDetail(detail, run);
    detail.hidden = !detail.hidden;
    toggle.setAttribute("aria-expanded", !detail.hidden);
  });
  return [row, detail];
}

function formatAccuracy(value) {
  if (value === null || value === undefined) return "";
  return value === 1 ? "100%" : `${(Math.floor(value * 1e4) / 100).toFixed(2)}%`;
}

function fillDetail(detail, run) {
  const cell = detail.insertCell();
  cell.colSpan = 9;
  const spec = structuredClone(run.owner.common);
  run.owner.varying.forEach((path, i) => place(spec, path.split("."), run.changes[i]));
  const text = document.createElement("pre");
  text.textContent = `run    ${run.run_id}\ntrial  ${run.trial_id}\nstore  ${run.store}${run.panel ? `, ${run.panel}` : ""}\n${run.reason ? `why    ${run.reason}\n` : ""}${JSON.stringify(spec, null, 1)}`;
  cell.append(text);
}

function place(target, path, value) {
  const last = path.pop();
  for (const name of path) target = target[name] ??= {};
  target[last] = value;
}
