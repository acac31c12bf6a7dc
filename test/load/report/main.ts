// `npm run bench:report`: writes REPORT.md and its charts from the runs in `results`.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LOAD, reportFiles } from "./files.ts";
import { RESULTS, readRuns, readSimulations, SIMULATIONS } from "./results.ts";

// Read before the removal: a file that is no run leaves the old report.
const files = reportFiles(readRuns(RESULTS), readSimulations(SIMULATIONS));
const plots = join(LOAD, "plots");
rmSync(plots, { recursive: true, force: true });
mkdirSync(plots);
for (const [path, text] of files) writeFileSync(join(LOAD, path), text);
process.stdout.write(`written in ${LOAD}: ${[...files.keys()].join(", ")}\n`);
