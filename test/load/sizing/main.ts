// `npm run sizing:measure`: measures the figures of deploy/sizing/figures.json.

import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { FIGURES, readFigures } from "../../../deploy/sizing/figures.ts";
import { measureCounts, REPETITIONS } from "./counts.ts";
import { measureTimes } from "./times.ts";

const HELP = `npm run sizing:measure -- [options]

Measures what a command costs on a real fleet, and writes deploy/sizing/figures.json. Then \`npm run generate\` writes deploy/SIZING.md.

  --counts  only rows, bytes, transactions and messages, which do not depend on the machine; the times stay as they are
  --help    this text

Measure on a machine where nothing else runs: times of a busy one are too long.

Exit codes: 0 the file is written, 2 the measurement failed.
`;

try {
  const { values } = parseArgs({ options: { counts: { type: "boolean" }, help: { type: "boolean" } } });
  if (values.help) {
    process.stdout.write(HELP);
  } else {
    const counts = await measureCounts(REPETITIONS);
    const times = values.counts ? readFigures().times : await measureTimes();
    writeFileSync(FIGURES, `${JSON.stringify({ counts, times }, null, 2)}\n`);
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${HELP}`);
  process.exitCode = 2;
}
