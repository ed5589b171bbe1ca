import { about, runtimeVersion } from "./assets.js";
import { Digits } from "./digits.js";
import { Enlarge } from "./enlarge.js";

async function start(section, status) {
  try {
    await section.start();
  } catch (error) {
    const place = document.getElementById(status);
    place.textContent = `This cannot start: ${error.message}`;
    place.classList.add("failed");
  }
}

document.getElementById("version").textContent = runtimeVersion;
const enlarge = new Enlarge();
const digits = new Digits();
globalThis.playground = { enlarge, digits, about }; // for tests, and to look at in the console
start(enlarge, "status");
start(digits, "digits-status");
