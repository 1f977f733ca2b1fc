// Start: read the page's data and draw its charts, heat maps and table of runs.

const DATA = JSON.parse(document.getElementById("data").textContent);

for (const spec of DATA.charts) mountChart(document.getElementById(spec.id), spec);
for (const spec of DATA.heatmaps) mountHeatmap(document.getElementById(spec.id), spec);
if (DATA.stores.length) mountRuns(document.getElementById("runs"), DATA.stores);
for (const table of document.querySelectorAll(".sortable table")) mountSortable(table);
for (const printed of document.querySelectorAll("details.printed")) printed.open = false;
document.documentElement.classList.add("ready");
