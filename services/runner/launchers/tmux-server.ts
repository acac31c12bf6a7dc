/** The runner's own tmux server. Every call names its socket, so the windows of users are never touched. */
import { type ExecFileException, execFile } from "node:child_process";
import { promisify } from "node:util";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";

const run = promisify(execFile);
const CALL_MS = 20_000;
const SIZE = { columns: 200, rows: 50 } as const;
const SESSION = "agents";

/** A window stays after its program has ended, so that its exit code can be read. Names, keys and hooks are set by the runner alone. */
const CONFIG = [
  "set-option -g remain-on-exit on",
  "set-option -g history-limit 20000",
  "set-option -g allow-rename off",
  "set-option -g automatic-rename off",
  "set-option -s escape-time 0",
  "",
].join("\n");

export interface Pane {
  readonly id: string;
  readonly window: string;
  readonly pid: number;
  readonly dead: boolean;
  readonly code: number | null;
  readonly signal: number | null;
}

export class TmuxServer {
  readonly #socket: string;
  readonly #configPath: string;

  constructor(socket: string, configPath: string) {
    this.#socket = socket;
    this.#configPath = configPath;
  }

  /** Opens a window and resolves with the id of its pane. `env` is added to the environment of the server. */
  async open(
    name: string,
    cwd: string,
    env: Readonly<Record<string, string>>,
    argv: readonly string[],
  ): Promise<string> {
    const settings = Object.entries(env).flatMap(([key, value]) => ["-e", `${key}=${value}`]);
    // A single word would be a shell line; env(1) makes it a program.
    const words = ["-n", name, "-c", cwd, "-P", "-F", "#{pane_id}", ...settings, "--", "env", ...argv];
    const opened = await this.#inSession("new-window", "-d", "-t", `${SESSION}:`, ...words);
    if (opened !== undefined) return opened;
    writeWhole(this.#configPath, CONFIG);
    const size = ["-x", String(SIZE.columns), "-y", String(SIZE.rows)];
    return this.call("new-session", "-d", "-s", SESSION, ...size, ...words);
  }

  /** Starts another program in the pane. A program that still runs there is hung up. */
  async respawn(
    pane: string,
    cwd: string,
    env: Readonly<Record<string, string>>,
    argv: readonly string[],
  ): Promise<void> {
    const settings = Object.entries(env).flatMap(([key, value]) => ["-e", `${key}=${value}`]);
    await this.call("respawn-pane", "-k", "-t", pane, "-c", cwd, ...settings, "--", "env", ...argv);
  }

  /** All panes; an empty list if no server runs. */
  async panes(): Promise<Pane[]> {
    const format =
      "#{pane_id}|#{window_name}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}";
    const text = await this.#inSession("list-panes", "-s", "-t", SESSION, "-F", format);
    return (text ?? "").split("\n").flatMap((line) => {
      const [id = "", window = "", pid = "", dead = "", code = "", signal = ""] = line.split("|");
      if (id === "") return [];
      return [
        { id, window, pid: Number(pid), dead: dead === "1", code: numberOf(code), signal: numberOf(signal) },
      ];
    });
  }

  /** The visible text of a pane; `whole` includes the scrollback. */
  screen(pane: string, whole = false): Promise<string> {
    return this.call("capture-pane", "-p", "-J", "-t", pane, ...(whole ? ["-S", "-"] : []));
  }

  /** Pastes like a user, in bracketed mode if the program asked for it. */
  async paste(pane: string, buffer: string, path: string): Promise<void> {
    await this.call("load-buffer", "-b", buffer, path);
    await this.#ifAlive(pane, `paste-buffer -p -d -b ${buffer} -t ${pane}`);
  }

  async enter(pane: string): Promise<void> {
    await this.#ifAlive(pane, `send-keys -t ${pane} Enter`);
  }

  /** Makes the server collect its ended children, as the end of any child does. */
  async reap(): Promise<void> {
    await this.call("run-shell", "-b", "true");
  }

  async closeWindow(pane: string): Promise<void> {
    await this.call("kill-window", "-t", pane);
  }

  /** Resolves with the standard output without its last line break. Throws with tmux's error message. */
  async call(...args: readonly string[]): Promise<string> {
    const words = ["-u", "-L", this.#socket, "-f", this.#configPath, ...args];
    const { stdout } = await run("tmux", words, {
      timeout: CALL_MS,
      maxBuffer: 64 * 1_024 * 1_024,
      env: { ...process.env, TMUX: "" },
    });
    return stdout.replace(/\n$/, "");
  }

  /** The server decides at that moment: input for an ended program crashes some servers, with all their windows. */
  async #ifAlive(pane: string, command: string): Promise<void> {
    await this.call("if-shell", "-F", "-t", pane, "#{?pane_dead,,1}", command);
  }

  /** undefined: there is no session, or its last window was closed in the meantime, which ends the server. */
  async #inSession(...args: readonly string[]): Promise<string | undefined> {
    if (!(await this.#hasSession())) return undefined;
    try {
      return await this.call(...args);
    } catch (error) {
      if (await this.#hasSession()) throw error;
      return undefined;
    }
  }

  async #hasSession(): Promise<boolean> {
    try {
      await this.call("has-session", "-t", SESSION);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new Error("tmux is not installed");
      // A server that does not answer in time may still have the session, with all its agents.
      if ((error as ExecFileException).killed) throw error;
      return false;
    }
  }
}

const numberOf = (text: string): number | null => (text === "" ? null : Number(text));
