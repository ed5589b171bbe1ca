import { about, runtimeVersion } from "./assets.js";
import { Digits } from "./digits.js";
import { Enlarge } from "./enlarge.js";
import { find, say } from "./page.js";

function start(section, status) {
  section.start().catch((error) => say(status, `This cannot start: ${error.message}`, true));
}

find("version").textContent = runtimeVersion;
const enlarge = new Enlarge();
const digits = new Digits();
globalThis.playground = { enlarge, digits, about }; // for tests, and to look at in the console
start(enlarge, "status");
start(digits, "digits-status");
