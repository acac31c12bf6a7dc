/** The folder of the demo's own fleet. The third part damages its store, so it must not be the store of another fleet. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RECORD_FILE } from "../../shared/sdk/fleet-home.ts";

/** Written only into a folder without a fleet, so it shows that the demo has made the fleet of a folder. The log does not: earlier demos wrote it anywhere. */
const MARK = "demo-fleet.txt";
const MARK_TEXT = "The demo made the fleet of this folder, and damages its store. Do not use it for work.\n";
const LOG = "demo.log";
const FLEET_PARTS = [RECORD_FILE, "store", "nats"];

/** Makes the folder if it is missing. Returns the path of the log. Throws for a folder with a fleet that the demo has not made. */
export function openDemoHome(home: string): string {
  const mark = join(home, MARK);
  const isMarked = existsSync(mark);
  if (!isMarked && FLEET_PARTS.some((part) => existsSync(join(home, part))))
    throw new Error(
      `${home} has a fleet that is not the demo's, and the demo damages the store of its fleet; ` +
        "set FLEET_HOME to a new folder, or start that fleet: the demo uses a running one without damage",
    );
  // As `fleet up` makes it: other users must read neither the work nor the keys.
  mkdirSync(home, { recursive: true, mode: 0o700 });
  if (!isMarked) writeFileSync(mark, MARK_TEXT);
  return join(home, LOG);
}
