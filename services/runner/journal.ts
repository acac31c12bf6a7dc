/**
 * The runner's journal: one folder per agent, written to disk before each step that cannot be undone. After a kill, the record names the
 * next step. Folders of reported agents are kept for a while for operators.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import { type ExitWord, exitWordSchema, type LauncherName } from "../../shared/protocol/runner-settings.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { readRegularFile } from "../../shared/runtime/process/regular-file.ts";
import {
  NewerFile,
  readJson,
  syncFolder,
  syncFolders,
  writeWhole,
} from "../../shared/runtime/process/whole-file.ts";
import type { FileSeal } from "../../shared/sdk/encryption/file-seal.ts";
import { agentFiles } from "./launchers/agent-folder.ts";
import { olderOutput } from "./launchers/output-log.ts";
import { START_MESSAGE } from "./profiles.ts";

/**
 * - accepting: the runner is about to accept the offer, or has done so.
 * - accepted: the agent owns the task, and runs or is about to.
 * - ended: the agent has ended, and its exit report is not sent yet.
 * - reported: the exit report is sent.
 */
export type RecordState = "accepting" | "accepted" | "ended" | "reported";

export interface AgentRecord {
  readonly agent_id: string;
  readonly agent_type: string;
  readonly tenant: string;
  readonly task_id: string;
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  /** The digest of the offer, which binds the stored prompt to the handoff. */
  readonly offer_digest: string;
  /** The command id of the acceptance. Every retry uses the same id, so the command has one effect. */
  readonly command_id: string;
  readonly launcher: LauncherName;
  readonly first_checkpoint_ms: number;
  readonly traceparent: string | null;
  readonly created_at: string;
  readonly state: RecordState;
  /** The fence under which the agent owns the task; null until the offer is accepted. */
  readonly fence: number | null;
  readonly report: ExitReport | null;
  /** When the agent is to be given the checkpoint message, after a restart. Absent or null: not at all. */
  readonly message_due_at?: string | null;
}

export interface AgentPaths {
  readonly folder: string;
  readonly prompt: string;
  /** The first message to a program that has the prompt in its system prompt. */
  readonly startMessage: string;
  /** The message that asks for a checkpoint. */
  readonly checkpointMessage: string;
  /** The file in which the agent may report why it ends. */
  readonly exitNote: string;
  /** The file of the agent's credentials for the bus. */
  readonly credentials: string;
}

const EXIT_NOTE_BYTES_MAX = 64 * 1_024;

export class Journal {
  readonly #root: string;
  readonly #log: Logger;
  readonly #seal: FileSeal | null;

  /** `seal`: for the files of reported agents; null: they stay as they are. Throws if the folder cannot be created. */
  constructor(root: string, log: Logger, seal: FileSeal | null = null) {
    this.#root = root;
    this.#log = log;
    this.#seal = seal;
    mkdirSync(root, { recursive: true, mode: 0o700 });
    syncFolders(root);
  }

  paths(agentId: string): AgentPaths {
    const folder = join(this.#root, agentId);
    return {
      folder,
      prompt: join(folder, "prompt.md"),
      startMessage: join(folder, "start.md"),
      checkpointMessage: join(folder, "message.md"),
      exitNote: join(folder, "word.json"),
      credentials: join(folder, "fleet.creds"),
    };
  }

  /** Begins the record of a new agent, with its prompt. */
  open(record: AgentRecord, prompt: string): void {
    const paths = this.paths(record.agent_id);
    mkdirSync(paths.folder, { mode: 0o700 });
    writeWhole(paths.prompt, prompt);
    writeWhole(paths.startMessage, START_MESSAGE);
    this.save(record);
    // Without the name of the folder, a power cut would take a record whose offer is accepted.
    syncFolder(this.#root);
  }

  save(record: AgentRecord): void {
    writeWhole(this.#file(record.agent_id), JSON.stringify(record));
  }

  /** Deletes the record of an agent that will never be started. */
  drop(agentId: string): void {
    rmSync(this.paths(agentId).folder, { recursive: true, force: true });
  }

  /** All records, oldest first. A folder without a readable record is left out: the runner was killed before it accepted the offer. */
  all(): AgentRecord[] {
    return readdirSync(this.#root)
      .flatMap((name) => this.#read(name) ?? [])
      .sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  }

  /** The agent's report about its own end; undefined without a readable report. */
  exitNote(agentId: string): ExitWord | undefined {
    try {
      const bytes = readRegularFile(this.paths(agentId).exitNote, EXIT_NOTE_BYTES_MAX);
      return bytes === null ? undefined : exitWordSchema.parse(JSON.parse(bytes.toString()));
    } catch (error) {
      this.#log.warn({ agent_id: agentId, error }, "the exit note of an agent cannot be read");
      return undefined;
    }
  }

  /** Seals the prompt, the messages and the output of a reported agent. Never rejects: what is left plain is sealed at the next start. */
  async seal(agentId: string): Promise<void> {
    if (this.#seal === null) return;
    const { folder, prompt, checkpointMessage, exitNote } = this.paths(agentId);
    const { output, paste } = agentFiles(folder);
    for (const path of [prompt, checkpointMessage, exitNote, paste, output, olderOutput(output)]) {
      try {
        await this.#seal(path);
      } catch (error) {
        // The agent can put anything into the place of one file, and must not keep the others plain with it.
        this.#log.error({ agent_id: agentId, file: path, error }, "a file of an agent is not sealed");
      }
    }
  }

  /** Seals what earlier runners have left, before the setting or because they were killed. */
  async sealReported(): Promise<void> {
    for (const { agent_id, state } of this.all()) if (state === "reported") await this.seal(agent_id);
  }

  /** Deletes all but the newest `kept` folders of reported agents. */
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
      // A runner that ignored the record would leave an agent without a supervisor.
      if (error instanceof NewerFile) throw error;
      if ((error as NodeJS.ErrnoException).code !== "ENOTDIR")
        this.#log.error({ agent_id: name, error }, "the record of an agent cannot be read");
      return undefined;
    }
  }
}
