/**
 * The agents of one process share a history, the copies of their commands, random numbers and a regular stop, which the parent requests
 * with `{stop: true}`. The process may be killed or paused at any time. After a restart its agents know nothing but their names.
 */
import { join } from "node:path";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { createLogger, type Logger } from "../../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { createWorkload, seededRandom } from "../../../load/workload.ts";
import type { AgentContext } from "./agent.ts";
import { ownCredentials } from "./agent-credentials.ts";
import { BusRecorder } from "./bus-recorder.ts";
import { connectAgent } from "./client.ts";
import { Copies } from "./copies.ts";
import { HistoryWriter } from "./history.ts";
import { loadSdk, type SdkOfTree } from "./sdk-tree.ts";
import { AgentBehaviour } from "./workload.ts";

export interface AgentGroupArguments {
  readonly name: string;
  readonly incarnation: number;
  readonly seed: number;
  readonly url: string;
  readonly historyFolder: string;
  readonly spoolFolder: string;
  /** The folder of the tree whose SDK the agents use. Default: this tree. */
  readonly sdkTree?: string;
  /** The folder of the fleet's keys. Absent: the bus needs no credentials. */
  readonly keysFolder?: string;
}

/** The message to the parent with the calls since the last message. It is for display; the verdict uses the history. */
export interface Progress {
  readonly done: Readonly<Record<string, number>>;
}

const PROGRESS_EVERY_MS = 500;
const FLUSH_MS = 15_000;
/** The exit code when commands were left in a spool. */
const EXIT_SPOOLED = 3;

export class AgentGroup {
  readonly random: () => number;
  readonly recorder: BusRecorder;
  readonly log: Logger;
  readonly #options: AgentGroupArguments;
  readonly history: HistoryWriter;
  readonly #copies: Copies;
  readonly #sdk: Promise<SdkOfTree>;
  readonly #stopping = new AbortController();
  readonly #progress: NodeJS.Timeout;
  #calls = 0;
  #done: Record<string, number> = {};

  constructor(options: AgentGroupArguments) {
    const { name, incarnation, seed, historyFolder } = options;
    this.#options = options;
    this.random = seededRandom(seed);
    this.#sdk = loadSdk(options.sdkTree);
    this.log = createLogger({ service: name, level: "warn" });
    this.history = new HistoryWriter(join(historyFolder, `${name}-${incarnation}.jsonl`));
    this.#copies = new Copies({ history: this.history, random: this.random, nextCall: this.nextCall });
    this.recorder = new BusRecorder(this.history, this.#copies);
    process.once("disconnect", () => process.exit());
    process.on("message", (message) => {
      if ((message as { stop?: boolean }).stop === true) this.#stopping.abort();
    });
    this.#progress = setInterval(() => this.#sendProgress(), PROGRESS_EVERY_MS);
  }

  get sdk(): Promise<SdkOfTree> {
    return this.#sdk;
  }

  /** Aborted when the parent requests the stop. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Connects an agent of this process; `wrapped` adds a layer over its recorded bus. */
  async connect(index: number, wrapped = (bus: Bus): Bus => bus): Promise<AgentContext> {
    const { name, seed, url, spoolFolder, keysFolder } = this.#options;
    const agentId = `${name}-${index}`;
    const recorded = (bus: Bus): Bus => wrapped(this.recorder.recorded(bus));
    const client = await connectAgent({
      ...{ sdk: await this.#sdk, url, agentId, spoolFolder, log: this.log, recorded },
      ...(keysFolder !== undefined && {
        credentials: { creds: await ownCredentials(keysFolder, agentId) },
      }),
    });
    return {
      client,
      behaviour: new AgentBehaviour(agentId, createWorkload(seed + index), this.random),
      history: this.history,
      nextCall: this.nextCall,
      random: this.random,
      answerOf: (commandId) => this.recorder.answerOf(commandId),
      onDone: (op, outcome) => {
        const name = `${op} ${outcome}`;
        this.#done[name] = (this.#done[name] ?? 0) + 1;
      },
    };
  }

  /** Stops the process regularly: waits for all copies, flushes the spools and closes the clients. */
  async stop(clients: readonly FleetClient[]): Promise<void> {
    await this.#copies.settled();
    for (const client of clients) {
      const { commands } = await client.flush({ deadlineMs: FLUSH_MS });
      if (commands > 0) process.exitCode = EXIT_SPOOLED;
      await client.close();
    }
    await this.history.close();
    clearInterval(this.#progress);
    this.#sendProgress();
    process.disconnect?.();
  }

  /** A name that is unique among the calls of the round. */
  readonly nextCall = (): string => {
    const { name, incarnation } = this.#options;
    this.#calls += 1;
    return `${name}/${incarnation}/${this.#calls}`;
  };

  #sendProgress(): void {
    process.send?.({ done: this.#done } satisfies Progress, () => {});
    this.#done = {};
  }
}
