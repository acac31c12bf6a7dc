/** Runs the `fleet` command, and kills this process with SIGKILL at the write, the link or the removal with a number. */
import fs, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

type Moment = "write" | "sync" | "link" | "linked";
const [moment, number, ...args] = process.argv.slice(2) as [Moment, string, ...string[]];
let left = Number(number);

function reached(here: Moment): void {
  if (here !== moment) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, "SIGKILL");
}

const { open, link } = fs;
fs.open = async (...place: Parameters<typeof open>): Promise<FileHandle> => {
  const file = await open(...place);
  if (!String(place[0]).endsWith(".part")) return file;
  const { write, sync } = file;
  const parts = {
    write: (...bytes: unknown[]) => {
      reached("write");
      return Reflect.apply(write, file, bytes);
    },
    sync: () => {
      reached("sync");
      return Reflect.apply(sync, file, []);
    },
  };
  return Object.assign(file, parts);
};
fs.link = async (...place: Parameters<typeof link>): Promise<void> => {
  reached("link");
  await link(...place);
  reached("linked");
};
syncBuiltinESMExports();

process.argv.splice(2, process.argv.length, ...args);
await import("../../../../services/cli/main.ts");
