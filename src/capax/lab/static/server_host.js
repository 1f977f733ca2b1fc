// Requests of a view to the server; its state is kept in the address.

export function serverHost(view) {
  async function request(path, options = {}) {
    let reply;
    try {
      reply = await fetch(path, options);
    } catch {
      throw new Error("The server does not answer. Start capax lab again; this page then continues.");
    }
    if (reply.ok) return reply;
    let said = `The server refused (${reply.status}).`;
    try {
      said = (await reply.json()).error ?? said;
    } catch {
      if (reply.status === 403) said = "The server does not know this page. Open the address that capax lab printed.";
    }
    throw new Error(said);
  }
  const post = (path, fields) => request(path, { method: "POST", body: JSON.stringify(fields), headers: { "content-type": "application/json" } });
  return {
    live: true,
    view,
    state: () => Object.fromEntries(new URLSearchParams(location.search)),
    setState(kept) {
      const query = new URLSearchParams(kept).toString();
      history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
    },
    ask: async (name, question) => (await post(`/api/ask/${name}`, question)).json(),
    async upload(kind, file) {
      const name = encodeURIComponent(file.name).slice(0, 150);
      return (await request(`/api/upload/${kind}`, { method: "POST", body: file, headers: { "x-file-name": name } })).json();
    },
    async download(kind, question) {
      const reply = await request(`/api/${kind}?${new URLSearchParams(question)}`);
      save(await reply.blob(), "head.safetensors");
    },
    async freeze(runs = []) {
      const reply = await post("/api/freeze", { address: location.pathname + location.search, runs });
      save(await reply.blob(), `capax-${view}.html`);
    },
    startRun: async (question) => (await (await post("/api/runs", question)).json()).run,
    steer: (run, fields) => post(`/api/runs/${run}`, fields),
    follow: (run, tell) => followRun(run, tell),
  };
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Events of a run. `tell` gets each of them once; `lost` when the server is away, `connected` when it
// is back, `gone` when it is back and does not know the run any more. A stream that ends with `turn`
// only lets other tabs connect, and is asked for again.
function followRun(run, tell) {
  let source = null;
  let ended = false;
  let lost = false;
  let patience = 1500; // milliseconds without a connection until the page says so
  let timer = null;
  let worry = null;
  function open() {
    source = new EventSource(`/api/runs/${run}/events`);
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      tell({ ...event, number: Number(message.lastEventId) });
      if (event.kind === "ended") close();
    };
    source.addEventListener("turn", () => {
      patience = 30000;
    });
    source.onopen = () => {
      clearTimeout(worry);
      worry = null;
      patience = 1500;
      if (lost) tell({ kind: "connected" });
      lost = false;
    };
    source.onerror = () => {
      if (ended) return;
      worry ??= setTimeout(() => {
        lost = true;
        tell({ kind: "lost" });
      }, patience);
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      source.close();
      timer = setTimeout(probe, 700);
    };
  }
  async function probe() {
    if (ended) return;
    try {
      const reply = await fetch(`/api/runs/${run}`);
      if (reply.status === 404) {
        close();
        return tell({ kind: "gone" });
      }
      if (reply.ok) return open();
    } catch {
      // still away
    }
    timer = setTimeout(probe, 700);
  }
  function close() {
    ended = true;
    clearTimeout(timer);
    clearTimeout(worry);
    source?.close();
  }
  open();
  return close;
}
