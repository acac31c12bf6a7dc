/**
 * What the agents of one process share: a history, copies of their commands, one connection's worth of randomness, and an end. It may be
 * killed or paused at any time; started again, its agents know nothing but their names. `{stop: true}` from the parent ends it well.
 */
import { join } from "node:path";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { createLogger, type Logger } from "../../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { seededRandom } from "../../../load/workload.ts";
import type { AgentContext } from "./agent.ts";
import { connectAgent } from "./client.ts";
import { Copies } from "./copies.ts";
import { HistoryWriter } from "./history.ts";
import { Recorder } from "./recording.ts";
import { AgentMind } from "./workload.ts";

export interface CrewArguments {
  readonly name: string;
  readonly incarnation: number;
  readonly seed: number;
  readonly url: string;
  readonly historyFolder: string;
  readonly spoolFolder: string;
}

/** Tells the parent what was done since the last time; the history holds the truth. */
export interface Progress {
  readonly done: Readonly<Record<string, number>>;
}

const SAY_EVERY_MS = 500;
const FLUSH_MS = 15_000;
/** Commands were left in a spool. */
const EXIT_SPOOLED = 3;

export class Crew {
  readonly random: () => number;
  readonly recorder: Recorder;
  readonly log: Logger;
  readonly #options: CrewArguments;
  readonly history: HistoryWriter;
  readonly #copies: Copies;
  readonly #stopping = new AbortController();
  readonly #saying: NodeJS.Timeout;
  #calls = 0;
  #done: Record<string, number> = {};

  constructor(options: CrewArguments) {
    const { name, incarnation, seed, historyFolder } = options;
    this.#options = options;
    this.random = seededRandom(seed);
    this.log = createLogger({ service: name, level: "warn" });
    this.history = new HistoryWriter(join(historyFolder, `${name}-${incarnation}.jsonl`));
    this.#copies = new Copies({ history: this.history, random: this.random, nextCall: this.nextCall });
    this.recorder = new Recorder(this.history, this.#copies);
    process.once("disconnect", () => process.exit());
    process.on("message", (message) => {
      if ((message as { stop?: boolean }).stop === true) this.#stopping.abort();
    });
    this.#saying = setInterval(() => this.#say(), SAY_EVERY_MS);
  }

  /** Aborted when the parent asks for the end. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** An agent of this process; `wrapped`: what else stands between it and its recorded bus. */
  async join(place: number, wrapped = (bus: Bus): Bus => bus): Promise<AgentContext> {
    const { name, seed, url, spoolFolder } = this.#options;
    const agentId = `${name}-${place}`;
    const recorded = (bus: Bus): Bus => wrapped(this.recorder.recorded(bus));
    const client = await connectAgent({ url, agentId, spoolFolder, log: this.log, recorded });
    return {
      client,
      mind: new AgentMind(agentId, seed + place, this.random),
      history: this.history,
      nextCall: this.nextCall,
      random: this.random,
      answerOf: (commandId) => this.recorder.answerOf(commandId),
      onDone: (op, outcome) => {
        const what = `${op} ${outcome}`;
        this.#done[what] = (this.#done[what] ?? 0) + 1;
      },
    };
  }

  /** The end that the parent asked for: nothing may stay behind on this machine. */
  async leave(clients: readonly FleetClient[]): Promise<void> {
    await this.#copies.settled();
    for (const client of clients) {
      const { commands } = await client.flush({ deadlineMs: FLUSH_MS });
      if (commands > 0) process.exitCode = EXIT_SPOOLED;
      await client.close();
    }
    await this.history.close();
    clearInterval(this.#saying);
    this.#say();
    process.disconnect?.();
  }

  /** A name that no other call of the round has. */
  readonly nextCall = (): string => {
    const { name, incarnation } = this.#options;
    this.#calls += 1;
    return `${name}/${incarnation}/${this.#calls}`;
  };

  #say(): void {
    process.send?.({ done: this.#done } satisfies Progress, () => {});
    this.#done = {};
  }
}
