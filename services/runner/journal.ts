/**
 * The runner's memory: a folder for each agent, on disk before anything is done that cannot be undone. Whatever a kill leaves behind
 * says what comes next. Folders of agents that were reported stay for a while, for people.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import { type ExitWord, exitWordSchema, type LauncherName } from "../../shared/protocol/runner-settings.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { readJson, writeWhole } from "./files.ts";

/**
 * accepting: about to acknowledge the offer, perhaps done; accepted: the task is the agent's, which runs or is about to; ended: nobody
 * has been told yet; reported: everything is done.
 */
export type RecordState = "accepting" | "accepted" | "ended" | "reported";

export interface AgentRecord {
  readonly agent_id: string;
  readonly agent_type: string;
  readonly tenant: string;
  readonly task_id: string;
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  /** Of the acknowledgement: the same at every attempt, so that it has one effect. */
  readonly command_id: string;
  readonly launcher: LauncherName;
  readonly first_checkpoint_ms: number;
  readonly traceparent: string | null;
  readonly created_at: string;
  readonly state: RecordState;
  /** Under which the agent has the task; null before it is known. */
  readonly fence: number | null;
  readonly report: ExitReport | null;
}
export interface AgentPaths {
  readonly folder: string;
  readonly prompt: string;
  readonly word: string;
}

const WORD_BYTES_MAX = 64 * 1_024;

export class Journal {
  readonly #root: string;
  readonly #log: Logger;

  /** Throws where the folder cannot be made. */
  constructor(root: string, log: Logger) {
    this.#root = root;
    this.#log = log;
    mkdirSync(root, { recursive: true, mode: 0o700 });
  }

  paths(agentId: string): AgentPaths {
    const folder = join(this.#root, agentId);
    return { folder, prompt: join(folder, "prompt.md"), word: join(folder, "word.json") };
  }

  /** A new agent, with its prompt. */
  open(record: AgentRecord, prompt: string): void {
    const paths = this.paths(record.agent_id);
    mkdirSync(paths.folder, { mode: 0o700 });
    writeWhole(paths.prompt, prompt);
    this.save(record);
  }

  save(record: AgentRecord): void {
    writeWhole(this.#file(record.agent_id), JSON.stringify(record));
  }

  /** Nothing was started, and nothing will be. */
  drop(agentId: string): void {
    rmSync(this.paths(agentId).folder, { recursive: true, force: true });
  }

  /** All that are known, oldest first. A folder without a readable record was begun and not finished: nothing came of it. */
  all(): AgentRecord[] {
    return readdirSync(this.#root)
      .flatMap((name) => this.#read(name) ?? [])
      .sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  }

  /** What the agent said about its end; undefined when it said nothing, or nothing that can be read. */
  word(agentId: string): ExitWord | undefined {
    try {
      const bytes = readFileSync(this.paths(agentId).word);
      if (bytes.length > WORD_BYTES_MAX) return undefined;
      return exitWordSchema.parse(JSON.parse(bytes.toString()));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT")
        this.#log.warn({ agent_id: agentId, error }, "what an agent said about its end cannot be read");
      return undefined;
    }
  }

  /** Keeps the newest folders of reported agents. */
  prune(kept: number): void {
    const reported = this.all().filter(({ state }) => state === "reported");
    for (const { agent_id } of reported.slice(0, Math.max(0, reported.length - kept))) this.drop(agent_id);
  }

  #file(agentId: string): string {
    return join(this.paths(agentId).folder, "agent.json");
  }

  #read(name: string): AgentRecord | undefined {
    try {
      return readJson<AgentRecord>(this.#file(name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOTDIR")
        this.#log.error({ agent_id: name, error }, "the record of an agent cannot be read");
      return undefined;
    }
  }
}
