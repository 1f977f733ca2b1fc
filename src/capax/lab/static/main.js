// Start of a page that the server sends: the view is in the address.

import { VIEWS, mountPage } from "./shell.js";
import { serverHost } from "./server_host.js";

const named = location.pathname.slice(1);
mountPage(document.getElementById("lab"), serverHost(named in VIEWS ? named : "compile"));
document.documentElement.classList.add("ready");
