/**
 * Program: simulates two processes of one agent that spool commands and send them, with kills and power cuts, once for each seed from its first
 * argument to its second. Prints what the simulations found.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { Spool } from "../../../shared/sdk/spool/spool.ts";
import { spooled } from "../../shared/sdk/spool-command.ts";
import { SILENT_LOG } from "../silent-log.ts";
import { SimulatedProcess } from "../time/processes.ts";
import { simulate } from "../time/run.ts";
import { SIMULATED_FOLDER } from "./file-system.ts";
import { type SimulatedMachine, useLoneMachine } from "./machine.ts";

const LIMITS = { limitMs: 600_000, eventsMax: 1_000_000 };
const PATH = join(SIMULATED_FOLDER, "spool", "default.agent");
const PROCESSES = 2;
const ROUNDS = 3;
const PAUSE_MS = 8;
const FLUSH_MS = 60_000;

export interface SpoolFindings {
  seeds: number;
  acknowledged: number;
  /** Acknowledged commands that were never sent. */
  lost: number;
  /** Commands without an acknowledgement that were sent, and those that were not. */
  unknownKept: number;
  unknownLost: number;
  /** Damaged lines that were set aside. */
  damaged: number;
  /** A process sent a command while another one was sending. */
  concurrentSenders: number;
}

class Agent {
  readonly #found: SpoolFindings;
  readonly begun = new Set<string>();
  readonly acknowledged = new Set<string>();
  readonly sent = new Set<string>();
  #sender: SimulatedProcess | undefined;

  constructor(found: SpoolFindings) {
    this.#found = found;
  }

  open(own: SimulatedProcess): Spool {
    return new Spool({
      ...{
        path: PATH,
        bytesMax: 2 ** 26,
        seal: new SpoolSeal(undefined),
        clock: systemClock,
        log: SILENT_LOG,
      },
      isUp: () => true,
      send: async ({ commandId }) => {
        if (this.#sender?.isAlive && this.#sender !== own) this.#found.concurrentSenders += 1;
        this.#sender = own;
        await sleep(Math.random() * PAUSE_MS);
        this.#sender = undefined;
        if (Math.random() < 0.1) throw new Error("the queue is away");
        this.sent.add(commandId);
        return undefined;
      },
      onRemoved: () => {},
      onAside: ({ reason }) => {
        if (reason === "damaged") this.#found.damaged += 1;
      },
    });
  }

  start(name: string): SimulatedProcess {
    const own = new SimulatedProcess(name);
    own.run(async () => {
      const spool = this.open(own);
      await spool.start();
      for (;;) {
        const command = spooled(name);
        this.begun.add(command.commandId);
        await spool.append(command);
        this.acknowledged.add(command.commandId);
        await sleep(Math.random() * PAUSE_MS);
      }
    });
    return own;
  }
}

async function work(machine: SimulatedMachine, agent: Agent): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    const processes = Array.from({ length: PROCESSES }, (_, n) => agent.start(`agent-${round}-${n}`));
    await sleep(50 + Math.random() * 300);
    processes[0]!.kill();
    await sleep(Math.random() * 100);
    for (const one of processes) one.kill();
    if (round % 2 === 0) machine.cutPower();
  }
  const last = new SimulatedProcess("last");
  await last.run(async () => {
    const spool = agent.open(last);
    await spool.start();
    await spool.flush(FLUSH_MS);
    await spool.close();
  });
}

const [first, last] = process.argv.slice(2).map(Number) as [number, number];
const found: SpoolFindings = {
  ...{ seeds: 0, acknowledged: 0, lost: 0, unknownKept: 0, unknownLost: 0 },
  ...{ damaged: 0, concurrentSenders: 0 },
};
for (let seed = first; seed <= last; seed += 1) {
  const agent = new Agent(found);
  await simulate(seed, LIMITS, async () => {
    const machine = useLoneMachine(seed);
    await work(machine, agent);
  });
  for (const id of agent.begun) {
    const isSent = agent.sent.has(id);
    if (agent.acknowledged.has(id)) {
      found.acknowledged += 1;
      if (!isSent) found.lost += 1;
    } else if (isSent) found.unknownKept += 1;
    else found.unknownLost += 1;
  }
  found.seeds += 1;
}
process.stdout.write(JSON.stringify(found));
