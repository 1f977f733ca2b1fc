// The frame of every page: the names of the views, the view itself, and the button that saves it.

import { make, button, message } from "./dom.js";
import { title as compileTitle, mount as mountCompile } from "./compile.js";
import { title as createTitle, mount as mountCreate } from "./create.js";
import { title as lawsTitle, mount as mountLaws } from "./laws.js";
import { title as boundsTitle, mount as mountBounds } from "./bounds.js";

export const VIEWS = {
  compile: { title: compileTitle, mount: mountCompile, about: "A formula becomes an attention head, certified on all inputs." },
  create: { title: createTitle, mount: mountCreate, about: "A network is trained, and its formula is shown while it learns." },
  laws: { title: lawsTitle, mount: mountLaws, about: "How many examples does each learner need, and how does that grow with T?" },
  bounds: { title: boundsTitle, mount: mountBounds, about: "Bounds on the error from norms, T, m and the margin." },
};

export function mountPage(root, host) {
  const view = VIEWS[host.view];
  const links = Object.entries(VIEWS).map(([name, one]) => make("a", { href: `/${name}`, text: one.title, "aria-current": name === host.view ? "page" : null }));
  const alone = !host.live || host.isWidget;
  const said = message();
  const keep = host.live && !host.isWidget
    ? button("freeze this page", async () => {
        said.say("saving this page as one file \u2026");
        try {
          await host.freeze(host.runs?.() ?? []);
          said.say("The file was saved. It works from the disk, without Capax.");
        } catch (error) {
          said.say(error.message, "error");
        }
      }, { "data-action": "freeze" })
    : null;
  const main = make("main", { class: `lab ${host.view}`, id: "main" });
  root.append(
    make("a", { class: "skip", href: "#main", text: "skip to the content" }),
    make(
      "header",
      { class: "lab-header" },
      make("h1", {}, alone ? `Capax: ${view.title}` : "Capax lab"),
      alone ? null : make("nav", { "aria-label": "Views" }, ...links),
      make("div", { class: "keep" }, keep, said.node),
    ),
    make("p", { class: "lead about", text: host.live ? view.about : `${view.about} A frozen page: controls that need Capax are off.` }),
    main,
  );
  if (!host.isWidget) document.title = `${view.title} - Capax lab`;
  view.mount(main, host);
}
