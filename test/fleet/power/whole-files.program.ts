// Writes small files whole, started as `node whole-files.program.ts <folder> <number>`. It prints "whole <n>" or "once <n>" once file n is written.

import { readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { writeOnce, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { wholeContent } from "./whole-content.ts";

const [folder = "", count = ""] = process.argv.slice(2);
// The next process continues behind the files of the one before.
const before = readdirSync(folder).filter((name) => name.startsWith("once-")).length;
for (let n = before + 1; n <= before + Number(count); n += 1) {
  writeWhole(join(folder, "whole"), wholeContent(n));
  writeSync(1, `whole ${n}\n`);
  writeOnce(join(folder, `once-${n}`), wholeContent(n).toString());
  writeSync(1, `once ${n}\n`);
}
