// The machine on which an operator runs `fleet doctor` in a test.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { newSigningKeyPem } from "../../../shared/integrity/dsse.ts";

type CommandEnvironment = Record<"FLEET_URL" | "FLEET_HOME" | "XDG_STATE_HOME", string>;

export interface OperatorMachine {
  /** For the files of the test, and the spools of the commands. */
  readonly folder: string;
  /** The environment of commands for a bus of which the machine has no record. */
  forBus(url: string): CommandEnvironment;
  /** The same for the fleet of a folder. */
  forFleet(fleet: { readonly home: string }): Omit<CommandEnvironment, "FLEET_URL">;
  /** The path of a new signing key in the folder. */
  signingKey(name: string): string;
}

/** Called first in a file, so that its folder is removed last. */
export function prepareMachine(): OperatorMachine {
  const folder = mkdtempSync(join(tmpdir(), "fleet-doctor-"));
  const XDG_STATE_HOME = join(folder, "state");
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return {
    folder,
    forBus: (url) => ({ FLEET_URL: url, FLEET_HOME: join(folder, "none"), XDG_STATE_HOME }),
    forFleet: ({ home }) => ({ FLEET_HOME: home, XDG_STATE_HOME }),
    signingKey: (name) => {
      writeFileSync(join(folder, name), newSigningKeyPem(), { mode: 0o600 });
      return join(folder, name);
    },
  };
}
