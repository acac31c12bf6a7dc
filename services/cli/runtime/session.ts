// One command at work: its settings, its connection when it needs one, and the only way to the two output streams.
// Standard output carries the answer and nothing else; warnings, progress and errors go to standard error.

import { userInfo } from "node:os";
import type { FleetClient, FleetWarning } from "../../../shared/sdk/sdk.ts";
import type { Settings } from "../config.ts";
import { createView, type View } from "../rendering/terminal/view.ts";
import type { Address } from "./address.ts";
import type { FailureContext } from "./failure.ts";
import type { Output, ProcessContext } from "./process-context.ts";
import { programNameOf } from "./program-name.ts";

export class Session {
  readonly settings: Settings;
  readonly context: ProcessContext;
  /** How standard output looks. */
  readonly view: View;
  /** Handed to the shell when the command ends. */
  exitCode = 0;
  #client: FleetClient | undefined;
  #address: Address | undefined;

  constructor(context: ProcessContext, settings: Settings) {
    this.context = context;
    this.settings = settings;
    this.view = this.#viewOf(context.stdout);
  }

  get json(): boolean {
    return this.settings.json ?? false;
  }

  /** Whether a person is there to be asked. */
  get interactive(): boolean {
    const { stdin, stderr } = this.context;
    return !this.json && stdin.isTTY === true && stderr.isTTY === true;
  }

  /** How the program is called here: for everything printed to be copied. */
  get programName(): string {
    return programNameOf(this.context);
  }

  /** For every call of the client. */
  get deadline(): { readonly deadlineMs?: number } {
    const { timeout } = this.settings;
    return timeout === undefined ? {} : { deadlineMs: timeout };
  }

  /** Connects at the first call. `agentId` counts only when neither option nor environment names one. */
  async client(agentId?: string): Promise<FleetClient> {
    if (this.#client !== undefined) return this.#client;
    // Loaded here, because the client and its schemas take longer to load than most commands to run.
    const [{ connect }, { discover, readIdentity }] = await Promise.all([
      import("../../../shared/sdk/client/connect.ts"),
      import("./address.ts"),
    ]);
    const { settings, context } = this;
    const { timeout } = settings;
    const identity = readIdentity(settings, context.env);
    this.#address = discover(settings, context.env);
    this.#client = await connect({
      url: this.#address.url,
      tenant: identity.tenant,
      agentId: identity.agentId ?? agentId ?? personName(),
      ...(timeout !== undefined && { connectTimeoutMs: timeout }),
      onWarning: (warning) => this.warn(warning),
      env: this.context.env,
    });
    return this.#client;
  }

  /** The address that was tried, once one was. */
  get url(): string | undefined {
    return this.#address?.url;
  }

  /** The command's answer: `data` as one JSON document, or `text`, made only when it is wanted. */
  async show(data: unknown, text: () => string | Promise<string>): Promise<void> {
    const answer = this.json ? JSON.stringify(data, null, 2) : await text();
    this.context.stdout.write(`${answer}\n`);
  }

  /** One line of an answer that has no end. */
  line(data: unknown, text: () => string): void {
    this.context.stdout.write(`${this.json ? JSON.stringify(data) : text()}\n`);
  }

  warn(warning: Omit<FleetWarning, "code"> & { readonly code: string }): void {
    const { stderr } = this.context;
    if (this.json) {
      stderr.write(`${JSON.stringify({ warning })}\n`);
      return;
    }
    const { colors } = this.#viewOf(stderr);
    const facts = Object.entries(warning.details).map(([key, value]) => `${key}=${value}`);
    const about = facts.length === 0 ? "" : ` (${facts.join(", ")})`;
    stderr.write(`${colors.yellow(`warning: ${warning.text}${about}`)}\n`);
  }

  /** Something that a caller may have to wait for, on standard error. */
  notice(text: string): void {
    this.context.stderr.write(`${this.json ? JSON.stringify({ note: text }) : text}\n`);
  }

  /** What a person at a terminal may like to know meanwhile; not said in a pipe or a script. */
  progress(text: string): void {
    const { stderr } = this.context;
    if (stderr.isTTY === true && !this.json) stderr.write(text);
  }

  /** Prints the failure and sets its exit code; with what is known of the command that failed. */
  async fail(error: unknown, of: Pick<FailureContext, "commandId" | "taskId"> = {}): Promise<void> {
    const { failureData, callFailureOf } = await import("./failure.ts");
    const { renderFailure } = await import("../rendering/terminal/failure.ts");
    const failure = callFailureOf(error, { ...this.#address, ...of, fleet: this.programName });
    this.exitCode = failure.exitCode;
    const { stderr } = this.context;
    stderr.write(
      `${this.json ? JSON.stringify({ error: failureData(failure) }) : renderFailure(failure, this.#viewOf(stderr))}\n`,
    );
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }

  #viewOf(output: Output): View {
    return createView(output, {
      color: this.settings.color ?? true,
      env: this.context.env,
      now: this.context.now(),
    });
  }
}

/** A person's commands stand in the audit trail under the person's name, not under a new name for each process. */
function personName(): string {
  try {
    const name = userInfo()
      .username.replace(/[^A-Za-z0-9_-]/g, "-")
      .slice(0, 40);
    return `cli-${name}`;
  } catch {
    // A container may run under a number that has no name.
    return `cli-${process.getuid?.() ?? "user"}`;
  }
}
