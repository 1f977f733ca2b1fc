// Start of a page that was frozen into one file: its answers are in it, and nothing can be asked.

import { mountPage } from "./shell.js";

const NOTHING = "This page is frozen: that number is not in it. capax lab computes it.";

function frozenHost(data) {
  return {
    live: false,
    view: data.view,
    recorded: data.recorded,
    state: () => data.state,
    setState() {},
    async ask(name, question) {
      const same = (one) => one.name === name && Object.entries(one.question).every(([key, value]) => !(key in question) || String(question[key]) === String(value));
      const found = data.answers.find(same);
      if (!found) throw new Error(NOTHING);
      return found.answer;
    },
  };
}

mountPage(document.getElementById("lab"), frozenHost(JSON.parse(document.getElementById("data").textContent)));
document.documentElement.classList.add("ready");
