// An agent with a terminal. A paste is its prompt; it loses the first Enter after the paste, as real programs do, and starts its work
// at the next one.

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [folder = "", code = "0"] = process.argv.slice(2);
const [BEGIN, END] = ["\u001b[200~", "\u001b[201~"];
let typed = "";
let pasted: string | undefined;
let lost = false;

process.stdin.setRawMode(true);
process.stdout.write("\u001b[?2004hWhat should I do?\r\n> ");
process.stdin.on("data", (chunk) => {
  typed += chunk.toString();
  const begin = typed.indexOf(BEGIN);
  const end = typed.indexOf(END);
  if (begin >= 0 && end >= 0) {
    pasted = typed.slice(begin + BEGIN.length, end);
    typed = typed.slice(end + END.length);
    process.stdout.write(`[${pasted.length} characters]`);
  }
  if (pasted === undefined || !typed.includes("\r")) return;
  typed = "";
  if (!lost) {
    lost = true;
    return;
  }
  writeFileSync(join(folder, "self-report.part"), JSON.stringify({ pasted, env: process.env }));
  renameSync(join(folder, "self-report.part"), join(folder, "self-report.json"));
  process.stdout.write("\r\nworking\r\n");
  if (code !== "stay") setTimeout(() => process.exit(Number(code)), 100);
});
