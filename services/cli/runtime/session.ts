// One command at work: its settings, its connection when it needs one, and the only way to the two output streams.
// Standard output carries the answer and nothing else; warnings, progress and errors go to standard error.

import { userInfo } from "node:os";
import type { FleetClient, FleetWarning } from "../../../shared/sdk/sdk.ts";
import type { Settings } from "../config.ts";
import { createView, type View } from "../rendering/view.ts";
import type { Address } from "./address.ts";
import type { Output, World } from "./environment.ts";
import type { FailurePlace } from "./failure.ts";
import { invocationOf } from "./program-name.ts";

export class Session {
  readonly settings: Settings;
  readonly world: World;
  /** How standard output looks. */
  readonly view: View;
  /** Handed to the shell when the command ends. */
  exitCode = 0;
  #client: FleetClient | undefined;
  #address: Address | undefined;

  constructor(world: World, settings: Settings) {
    this.world = world;
    this.settings = settings;
    this.view = this.#viewOf(world.stdout);
  }

  get json(): boolean {
    return this.settings.json ?? false;
  }

  /** Whether a person is there to be asked. */
  get interactive(): boolean {
    const { stdin, stderr } = this.world;
    return !this.json && stdin.isTTY === true && stderr.isTTY === true;
  }

  /** How the program is called here: for everything printed to be copied. */
  get called(): string {
    return invocationOf(this.world);
  }

  /** For every call of the client. */
  get ask(): { readonly deadlineMs?: number } {
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
    const { settings, world } = this;
    const { timeout } = settings;
    const identity = readIdentity(settings, world.env);
    this.#address = discover(settings, world.env);
    this.#client = await connect({
      url: this.#address.url,
      tenant: identity.tenant,
      agentId: identity.agentId ?? agentId ?? personName(),
      ...(timeout !== undefined && { connectTimeoutMs: timeout }),
      onWarning: (warning) => this.warn(warning),
      env: this.world.env,
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
    this.world.stdout.write(`${answer}\n`);
  }

  /** One line of an answer that has no end. */
  line(data: unknown, text: () => string): void {
    this.world.stdout.write(`${this.json ? JSON.stringify(data) : text()}\n`);
  }

  warn(warning: Omit<FleetWarning, "code"> & { readonly code: string }): void {
    const { stderr } = this.world;
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
  tell(text: string): void {
    this.world.stderr.write(`${this.json ? JSON.stringify({ note: text }) : text}\n`);
  }

  /** What a person at a terminal may like to know meanwhile; not said in a pipe or a script. */
  note(text: string): void {
    const { stderr } = this.world;
    if (stderr.isTTY === true && !this.json) stderr.write(text);
  }

  /** Prints the failure and sets its exit code; with what is known of the command that failed. */
  async fail(error: unknown, of: Pick<FailurePlace, "commandId" | "taskId"> = {}): Promise<void> {
    const { failureData, failureOf } = await import("./failure.ts");
    const { renderFailure } = await import("../rendering/failure.ts");
    const failure = failureOf(error, { ...this.#address, ...of, fleet: this.called });
    this.exitCode = failure.exitCode;
    const { stderr } = this.world;
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
      env: this.world.env,
      now: this.world.now(),
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
