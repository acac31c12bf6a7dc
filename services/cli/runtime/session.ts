// The session of one command: its settings, its connection to the fleet if it needs one, and the only way to the two
// output streams. Standard output carries the answer alone. Warnings, progress and errors are written to standard error.

import { userInfo } from "node:os";
import { resolve } from "node:path";
import { personOf } from "../../../shared/protocol/principal.ts";
import type { FleetClient, FleetWarning } from "../../../shared/sdk/sdk.ts";
import type { Settings } from "../config.ts";
import { inReadingOrder, terminalJson } from "../rendering/terminal/text.ts";
import { createView, type View } from "../rendering/terminal/view.ts";
import { renderWarning } from "../rendering/terminal/warning.ts";
import type { Address } from "./address.ts";
import type { FailureContext } from "./failure.ts";
import type { Output, ProcessContext } from "./process-context.ts";
import { programNameOf } from "./program-name.ts";

export class Session {
  readonly settings: Settings;
  readonly context: ProcessContext;
  /** The view of standard output. */
  readonly view: View;
  /** The exit code for the shell. */
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

  /** Whether an operator at a terminal can answer questions. */
  get interactive(): boolean {
    const { stdin, stderr } = this.context;
    return !this.json && stdin.isTTY === true && stderr.isTTY === true;
  }

  /** The name of the program in every printed command. */
  get programName(): string {
    return programNameOf(this.context);
  }

  /** The deadline that --timeout sets, for every call of the client. */
  get deadline(): { readonly deadlineMs?: number } {
    const { timeout } = this.settings;
    return timeout === undefined ? {} : { deadlineMs: timeout };
  }

  /** The view of standard output now: a terminal may have changed its size. */
  freshView(): View {
    return this.#viewOf(this.context.stdout);
  }

  /** Connects at the first call. `agentId` is used if no option or variable names the caller. */
  async client(agentId?: string): Promise<FleetClient> {
    this.#client ??= await this.#connect(this.settings.tenant, agentId);
    return this.#client;
  }

  /** Runs `work` with a client of another tenant. */
  async inTenant(tenant: string, work: (client: FleetClient) => Promise<void>): Promise<void> {
    const client = await this.#connect(tenant, undefined);
    try {
      await work(client);
    } finally {
      await client.close();
    }
  }

  /** The principal that calls, also for a command that needs no fleet. */
  async caller(): Promise<string> {
    const { readCaller } = await import("./address.ts");
    return readCaller(this.settings, this.context.env) ?? accountPerson();
  }

  async #connect(tenant: string | undefined, agentId: string | undefined): Promise<FleetClient> {
    // Loaded here, because the client and its schemas take longer to load than most commands to run.
    const [{ connect }, { discover, readCaller }] = await Promise.all([
      import("../../../shared/sdk/client/connect.ts"),
      import("./address.ts"),
    ]);
    const { settings, context } = this;
    const { timeout } = settings;
    const caller = readCaller(settings, context.env) ?? agentId;
    this.#address = discover(settings, context.env);
    return connect({
      ...(settings.url !== undefined && { url: settings.url }),
      ...(tenant !== undefined && { tenant }),
      ...(caller !== undefined && { agentId: caller }),
      defaultAgentId: accountPerson(),
      role: "operator",
      ...(timeout !== undefined && { connectTimeoutMs: timeout }),
      onWarning: (warning) => this.warn(warning),
      env: this.context.env,
    });
  }

  /** The address of the bus; undefined before the first connection. */
  get url(): string | undefined {
    return this.#address?.url;
  }

  /** The home of the fleet, if its address was found there; null before the first connection. */
  get recordedHome(): string | null {
    const home = this.#address?.expected?.home;
    return home === undefined ? null : resolve(home);
  }

  /** Prints the command's answer: `data` as one JSON document, or `text`, which is made only when it is needed. */
  async show(data: unknown, text: () => string | Promise<string>): Promise<void> {
    const answer = this.json ? terminalJson(data, 2) : inReadingOrder(await text());
    this.context.stdout.write(`${answer}\n`);
  }

  /** Prints one line of an answer that grows: one JSON document, or `text`. */
  line(data: unknown, text: () => string): void {
    this.context.stdout.write(`${this.json ? terminalJson(data) : inReadingOrder(text())}\n`);
  }

  warn(warning: Omit<FleetWarning, "code"> & { readonly code: string }): void {
    const { stderr } = this.context;
    if (this.json) {
      stderr.write(`${terminalJson({ warning })}\n`);
      return;
    }
    const { colors } = this.#viewOf(stderr);
    stderr.write(`${colors.yellow(inReadingOrder(renderWarning(warning)))}\n`);
  }

  /**
   * Prints a text on standard error, for operators and programs that wait for it. `facts`: the members beside or in place of the text for a
   * program, which must not have to read prose.
   */
  notice(text: string, facts: object = { note: text }): void {
    this.context.stderr.write(`${this.json ? terminalJson(facts) : inReadingOrder(text)}\n`);
  }

  /** Asks the person to open an address. */
  noticeAddress(note: string, url: string): void {
    this.notice(`${note}\n${url}`, { note, url });
  }

  /** Writes to a terminal on standard error only, never to a pipe or with --json. */
  progress(text: string): void {
    const { stderr } = this.context;
    if (stderr.isTTY === true && !this.json) stderr.write(text);
  }

  /** Prints the failure of a call and sets its exit code. */
  async fail(error: unknown, of: Pick<FailureContext, "commandId" | "taskId"> = {}): Promise<void> {
    const { failureData, callFailureOf } = await import("./failure.ts");
    const { renderFailure } = await import("../rendering/terminal/failure.ts");
    const failure = callFailureOf(error, { ...this.#address, ...of, fleet: this.programName });
    this.exitCode = failure.exitCode;
    const { stderr } = this.context;
    stderr.write(
      `${this.json ? terminalJson({ error: failureData(failure) }) : inReadingOrder(renderFailure(failure, this.#viewOf(stderr)))}\n`,
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

/** The person whose account runs the command, so that the audit trail has one name for all calls of an operator. */
function accountPerson(): string {
  try {
    return personOf(userInfo().username);
  } catch {
    // In a container the user id may have no name.
    return personOf(`uid-${process.getuid?.() ?? "unknown"}`);
  }
}
