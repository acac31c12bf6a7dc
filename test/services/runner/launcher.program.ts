// A process launcher in a process of its own: starts one agent, prints its process id, and runs until it is killed.

import type { LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { ProcessLauncher } from "../../../services/runner/launchers/process.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";

const spec = JSON.parse(process.argv[2] ?? "") as LaunchSpec;
const { pid } = await new ProcessLauncher(systemClock).start(spec);
process.stdout.write(`${pid}\n`);
setInterval(() => {}, 60_000);
