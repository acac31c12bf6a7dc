/** Program: a simulation that does not end. Its argument is the way: `loop`, `promises`, `timers`. */
import { setTimeout as sleep } from "node:timers/promises";
import { SimulatedProcess } from "./processes.ts";
import { activeSimulation, simulate } from "./run.ts";

const LIMITS = { limitMs: Number.MAX_SAFE_INTEGER, eventsMax: Number.MAX_SAFE_INTEGER, processorMs: 1_000 };

const WAYS: Readonly<Record<string, () => Promise<void>>> = {
  async loop() {
    for (let n = 0; ; n += 1) if (n < 0) return;
  },
  async promises() {
    for (;;) await null;
  },
  async timers() {
    for (;;) await sleep(1);
  },
};

await simulate(7, LIMITS, async () => {
  activeSimulation()!.lastLines = () => ["the last step"];
  new SimulatedProcess("waiter").run(() => setTimeout(() => {}, 86_400_000));
  await sleep(5);
  await WAYS[process.argv[2]!]!();
});
