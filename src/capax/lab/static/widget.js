// A view in a notebook. Questions go to the kernel as messages; the state is a trait of the widget.

import { mountPage } from "./shell.js";

export function render({ model, el }) {
  const waiting = new Map();
  const told = new Map();
  let number = 0;
  model.on("msg:custom", (message) => {
    if (message.run !== undefined) return told.get(message.run)?.({ ...message.event, number: message.number });
    const asked = waiting.get(message.id);
    if (!asked) return;
    waiting.delete(message.id);
    message.error === undefined ? asked.resolve(message.answer) : asked.reject(new Error(message.error));
  });
  const send = (fields) => {
    const id = ++number;
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      model.send({ id, ...fields });
    });
  };
  const host = {
    live: true,
    isWidget: true,
    view: model.get("view"),
    state: () => model.get("state"),
    setState(kept) {
      model.set("state", Object.fromEntries(Object.entries(kept).map(([name, value]) => [name, String(value)])));
      model.save_changes();
    },
    ask: (name, question) => send({ what: "ask", name, question }),
    startRun: (question) => send({ what: "start", question }),
    steer: (run, fields) => send({ what: "steer", run, fields }),
    follow(run, tell) {
      told.set(run, tell);
      send({ what: "follow", run });
      return () => told.delete(run);
    },
    async upload(kind, file) {
      const bytes = new Uint8Array(await file.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
      return send({ what: "upload", kind, name: file.name, content: btoa(text) });
    },
  };
  const inside = el.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = model.get("css");
  const root = document.createElement("div");
  root.className = "widget";
  inside.append(style, root);
  mountPage(root, host);
}
