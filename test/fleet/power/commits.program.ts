// Commits to a store and prints each commit once it is acknowledged, started as `node commits.program.ts <folder> <commits of each lane>`. It
// continues where the store ends. With `unsynced` behind that, the engine never syncs.

import { writeSync } from "node:fs";
import { LANES } from "./committed-lanes.ts";
import { openEngineLanes, openStoreLanes } from "./open-lanes.ts";

const [path = "", count = "", how = ""] = process.argv.slice(2);
const lanes = await (how === "unsynced" ? openEngineLanes(path, { isSynced: false }) : openStoreLanes(path));
await Promise.all(
  LANES.map(async (lane) => {
    const from = await lanes.count(lane);
    for (let n = from + 1; n <= from + Number(count); n += 1) {
      await lanes.commit(lane, n);
      writeSync(1, `${lane} ${n}\n`);
    }
  }),
);
await lanes.close();
