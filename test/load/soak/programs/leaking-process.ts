// Program: leaks as its argument names, steadily, until it is killed.

import { openSync } from "node:fs";
import type { Leak } from "./leaks.ts";

const EVERY_MS = 250;
const OBJECTS = 500;

const kept: unknown[] = [];
const leak = {
  memory: () => kept.push(Array.from({ length: OBJECTS }, (_, i) => ({ at: Date.now(), i }))),
  descriptors: () => kept.push(openSync(import.meta.filename, "r")),
} as const;

process.on("disconnect", () => process.exit());
process.on("SIGINT", () => {}); // Ctrl-C reaches the whole group; the soak ends its processes in order
setInterval(leak[process.argv[2] as Leak], EVERY_MS);
