// The settings files of agent programs. A file is written whole or not at all, and only if something changes; a file that is no
// JSON object is refused and stays as it is.

import { existsSync, mkdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, resolve } from "node:path";
import { hookCall, shellWord } from "../../../../shared/runtime/process/installation.ts";
import { writeWhole } from "../../../../shared/runtime/process/whole-file.ts";
import type { Environment } from "../../../../shared/runtime/settings/config.ts";
import { homeOf } from "../../../../shared/sdk/fleet-home.ts";
import {
  type HookCommand,
  type HookState,
  hookStates,
  withHooks,
  withoutHooks,
} from "../../../../shared/sdk/hooks/hook-settings.ts";
import { HOOK_VENDORS, type HookVendorName } from "../../../../shared/sdk/hooks/vendors.ts";
import { UsageError } from "../../runtime/usage.ts";

export interface HookPlace {
  readonly env: Environment;
  /** The settings of the project in the working folder. */
  readonly project: boolean;
  readonly dryRun: boolean;
}

export interface HookChange {
  readonly vendor: HookVendorName;
  readonly path: string;
  readonly changed: boolean;
  /** Lines with `+`, `-` or a space before them. */
  readonly difference: readonly string[];
}

export interface HookCheck {
  readonly vendor: HookVendorName;
  readonly path: string;
  readonly hooks: readonly HookState[];
  /** Sentences; empty if all is well. */
  readonly problems: readonly string[];
}

type Json = Record<string, unknown>;

/** Throws UsageError for a file that is no JSON object. */
export function changeHooks(act: "install" | "remove", vendor: HookVendorName, place: HookPlace): HookChange {
  const path = pathOf(vendor, place);
  const before = readSettings(path);
  const after = inForm(path, () =>
    act === "install"
      ? withHooks(before.settings, vendor, hookCommand(vendor, place.env))
      : withoutHooks(before.settings, vendor),
  );
  const text = `${JSON.stringify(after, null, before.indent)}\n`;
  const changed = JSON.stringify(after) !== JSON.stringify(before.settings);
  if (changed && !place.dryRun) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // The file behind a link, so that the link stays one.
    const target = existsSync(path) ? realpathSync(path) : path;
    writeWhole(target, text, before.mode);
  }
  return { vendor, path, changed, difference: changed ? difference(before.text, text) : [] };
}

/** Throws UsageError for a file that is no JSON object. */
export function checkHooks(vendor: HookVendorName, place: HookPlace): HookCheck {
  const path = pathOf(vendor, place);
  const { settings } = readSettings(path);
  const hooks = inForm(path, () => hookStates(settings, vendor, hookCommand(vendor, place.env)));
  const named = (state: HookState["state"]) =>
    hooks.filter((hook) => hook.state === state).map(({ event }) => event);
  const [missing, outdated] = [named("missing"), named("outdated")];
  const problems = [
    ...(missing.length > 0 ? [`Missing: ${missing.join(", ")}.`] : []),
    ...(outdated.length > 0 ? [`Out of date: ${outdated.join(", ")}.`] : []),
    ...(settings.disableAllHooks === true ? ["The settings switch all hooks off: disableAllHooks."] : []),
  ];
  return { vendor, path, hooks, problems };
}

function pathOf(vendor: HookVendorName, { env, project }: HookPlace): string {
  const { userSettings, projectSettings } = HOOK_VENDORS[vendor];
  return project ? resolve(projectSettings) : userSettings(env.HOME ?? homedir(), env);
}

/**
 * The call for one event. It names this installation and this fleet, so that it works in every folder, and it is the same after every
 * update.
 */
function hookCommand(vendor: HookVendorName, env: Environment): HookCommand {
  const home = shellWord(resolve(homeOf(env)));
  return (event) => `${hookCall()} hook ${vendor} ${event} --home ${home}`;
}

function readSettings(path: string): { settings: Json; text: string; indent: string; mode: number } {
  if (!existsSync(path)) return { settings: {}, text: "", indent: "  ", mode: 0o600 };
  const text = readFileSync(path, "utf8");
  const [, indent = "  "] = /^\{\s*\n([ \t]+)"/.exec(text) ?? [];
  const settings = inForm(path, () => {
    const value: unknown = text.trim() === "" ? {} : JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new TypeError("expected an object");
    return value as Json;
  });
  return { settings, text, indent, mode: statSync(path).mode & 0o777 };
}

function inForm<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
    throw new UsageError(
      `${path} has another form: ${error.message}`,
      "Correct the file; nothing was changed.",
    );
  }
}

/** The lines that differ, and three around them: entries are added in one place, so a common beginning and end are enough. */
function difference(before: string, after: string): string[] {
  const [old, now] = [before, after].map((text) => text.replace(/\n$/, "").split("\n")) as [
    string[],
    string[],
  ];
  if (before === "") return now.map((line) => `+ ${line}`);
  let head = 0;
  while (head < Math.min(old.length, now.length) && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(old.length, now.length) - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const context = 3;
  return [
    ...now.slice(Math.max(0, head - context), head).map((line) => `  ${line}`),
    ...old.slice(head, old.length - tail).map((line) => `- ${line}`),
    ...now.slice(head, now.length - tail).map((line) => `+ ${line}`),
    ...now.slice(now.length - tail, now.length - tail + context).map((line) => `  ${line}`),
  ];
}
