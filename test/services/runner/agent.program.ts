// The fake agent, with the behaviours that agents show. It reports through files, because its output is under test too.

import { spawn } from "node:child_process";
import { readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

const [behaviour = "", folder = ""] = process.argv.slice(2);
const report = (name: string, content: string | Uint8Array): void => {
  const path = join(folder, name);
  // Written completely before the rename, because the test reads the file at once.
  writeFileSync(`${path}.part`, content);
  renameSync(`${path}.part`, path);
};

const keepRunning = (): void => void setInterval(() => {}, 60_000);

switch (behaviour) {
  case "wait":
    report("agent.pid", String(process.pid));
    keepRunning();
    break;
  case "obey":
    process.on("SIGTERM", () => {
      report("asked", "SIGTERM");
      process.exit(0);
    });
    report("agent.pid", String(process.pid));
    keepRunning();
    break;
  case "ignore":
    process.on("SIGTERM", () => report("asked", "SIGTERM"));
    report("agent.pid", String(process.pid));
    keepRunning();
    break;
  case "fork": {
    // A grandchild that holds the output open and ignores SIGTERM.
    const child = spawn(
      "sh",
      [
        "-c",
        `trap '' TERM; echo $$ > "$0.part"; mv "$0.part" "$0"; sleep 600 & wait; wait`,
        join(folder, "grandchild.pid"),
      ],
      {
        stdio: "inherit",
      },
    );
    child.once("spawn", () => report("agent.pid", String(process.pid)));
    keepRunning();
    break;
  }
  case "leave": {
    const child = spawn("sleep", ["600"], { stdio: "inherit" });
    child.once("spawn", () => {
      report("grandchild.pid", String(child.pid));
      process.exit(3);
    });
    break;
  }
  case "shout": {
    const line = `${"x".repeat(1_023)}\n`;
    for (let n = 0; n < 8 * 1_024; n += 1) writeSync(1, line);
    writeSync(2, "the last line\n");
    break;
  }
  case "tell":
    report(
      "self-report.json",
      JSON.stringify({
        argv: process.argv.slice(4),
        env: process.env,
        prompt: readFileSync(process.env.FLEET_PROMPT_FILE ?? 0).toString("base64"),
      }),
    );
    break;
  case "kill":
    process.kill(process.pid, "SIGKILL");
    break;
  default:
    writeFileSync(2, `no such behaviour: ${behaviour}\n`);
    process.exit(Number(behaviour));
}
