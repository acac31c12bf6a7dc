// Spools commands and sends them, started as `node spool.program.ts <folder of the spool> <rounds>`. Like two processes of one agent, it appends
// through two views of the folder. It prints "spooled <id>" and "queued <id>" once that holds. Some commands are refused, so that they are set
// aside, and some are not sent at first.

import { writeSync } from "node:fs";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { SpoolFolder } from "../../../shared/sdk/spool/folder.ts";
import { commandLine } from "../../../shared/sdk/spool/line.ts";
import { SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { SpoolSender } from "../../../shared/sdk/spool/spool-sender.ts";
import { spooled } from "../../shared/sdk/spool-command.ts";

const [path = "", rounds = ""] = process.argv.slice(2);
const EACH = 6;
const REFUSED_EVERY = 11;
const UNSENT_EVERY = 17;
const BYTES_MAX = 64 * 1024 * 1024;

const folders = [new SpoolFolder(path, BYTES_MAX), new SpoolFolder(path, BYTES_MAX)];
let sent = 0;
const sender = new SpoolSender({
  folder: folders[0]!,
  clock: systemClock,
  seal: new SpoolSeal(undefined),
  async send({ commandId }) {
    sent += 1;
    if (sent % UNSENT_EVERY === 0) throw new Error("the queue is away");
    if (sent % REFUSED_EVERY === 0) return "forbidden";
    writeSync(1, `queued ${commandId}\n`);
    return undefined;
  },
  onRemoved: () => {},
  onAside: () => {},
});

async function spool(view: SpoolFolder, task: string): Promise<void> {
  for (let n = 0; n < EACH; n += 1) {
    const command = spooled(task);
    const body = Buffer.from(JSON.stringify({ command_id: command.commandId, text: "x".repeat(n * 300) }));
    await view.append(commandLine({ ...command, body }));
    writeSync(1, `spooled ${command.commandId}\n`);
  }
}

const run = (): Promise<unknown> => sender.run(new AbortController().signal).catch(() => undefined);
for (let round = 0; round < Number(rounds); round += 1) {
  const appended = folders.map((view, i) => spool(view, `task-${i}`));
  // Every other round a sender closes the file while both append.
  if (round % 2 === 1) await Promise.all([run(), ...appended]);
  else await Promise.all(appended);
  if (round % 3 === 2) await run();
}
for (const view of folders) await view.end();
