/** `npm run sizing`: prints the plan for a number of agents and checkpoints. */
import { exitCodes } from "../../shared/runtime/process/startup.ts";
import { readFigures } from "./figures.ts";
import { readSizingCall, SizingUsageError, sizingHelp } from "./options.ts";
import { planFor } from "./plan.ts";
import { planText } from "./wording.ts";

try {
  const call = readSizingCall(process.argv.slice(2));
  if (call.kind === "help") process.stdout.write(sizingHelp());
  else {
    const plan = planFor(readFigures(), call.demand);
    process.stdout.write(call.json ? `${JSON.stringify(plan, null, 2)}\n` : planText(plan));
  }
} catch (error) {
  if (!(error instanceof SizingUsageError)) throw error;
  process.stderr.write(`sizing: ${error.message}. See \`npm run --silent sizing -- --help\`.\n`);
  process.exitCode = exitCodes.usage;
}
