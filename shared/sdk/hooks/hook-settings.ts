/**
 * Fleet's entries in the settings of an agent program. Entries of others stay as they are, a second run changes nothing, and
 * the command line stays the same as long as the program does: Codex trusts a hook by the hash of its definition.
 */
import { HOOK_VENDORS, type HookVendorName, type VendorEvent } from "./vendors.ts";

type Json = Record<string, unknown>;

export type HookState =
  | { readonly event: string; readonly state: "installed" | "missing" }
  /** An entry of another version or for another fleet. */
  | { readonly event: string; readonly state: "outdated"; readonly found: string };

/** The call of `fleet hook`, without the event. */
export type HookCommand = (event: string) => string;

const OWN = / hook (?:claude-code|codex|gemini) [A-Za-z]+(?: |$)/;

/** The settings with the entries of this vendor. Throws TypeError if they have another form. */
export function withHooks(settings: Json, vendor: HookVendorName, command: HookCommand): Json {
  const hooks = hooksOf(withoutHooks(settings, vendor));
  for (const [event, form] of Object.entries(HOOK_VENDORS[vendor].events))
    hooks[event] = [...groupsOf(hooks, event), groupOf(vendor, event, form, command)];
  return { ...settings, hooks };
}

/** The settings without the entries of this vendor. A member that was empty before stays. */
export function withoutHooks(settings: Json, vendor: HookVendorName): Json {
  const hooks = hooksOf(settings);
  for (const event of Object.keys(hooks)) {
    const groups = groupsOf(hooks, event);
    const kept = groups.flatMap((group) => {
      const entries = entriesOf(group);
      const others = entries.filter((entry) => !isOwn(entry, vendor));
      if (others.length === entries.length) return [group];
      return others.length === 0 ? [] : [{ ...group, hooks: others }];
    });
    if (kept.length === 0 && groups.length > 0) delete hooks[event];
    else hooks[event] = kept;
  }
  if (settings.hooks !== undefined && Object.keys(hooks).length > 0) return { ...settings, hooks };
  const { hooks: _, ...rest } = settings;
  return Object.keys(hooksOf(settings)).length > 0 ? rest : settings;
}

/** The state of every event that the vendor needs, and of entries for events that it no longer needs. */
export function hookStates(settings: Json, vendor: HookVendorName, command: HookCommand): HookState[] {
  const { events } = HOOK_VENDORS[vendor];
  const hooks = hooksOf(settings);
  const all = [...new Set([...Object.keys(events), ...Object.keys(hooks)])];
  return all.flatMap((event): HookState[] => {
    const own = groupsOf(hooks, event).flatMap((group) =>
      entriesOf(group)
        .filter((entry) => isOwn(entry, vendor))
        .map((entry) => ({ ...group, hooks: [entry] })),
    );
    const form = events[event];
    if (form === undefined)
      return own.map((group) => ({ event, state: "outdated", found: commandOf(group.hooks[0]!) }));
    if (own.length === 0) return [{ event, state: "missing" }];
    const wanted = JSON.stringify(groupOf(vendor, event, form, command));
    const isCurrent = own.length === 1 && JSON.stringify(own[0]) === wanted;
    return isCurrent
      ? [{ event, state: "installed" }]
      : [{ event, state: "outdated", found: commandOf(own[0]!.hooks[0]!) }];
  });
}

function groupOf(vendor: HookVendorName, event: string, form: VendorEvent, command: HookCommand): Json {
  const entry = {
    type: "command",
    command: command(event),
    timeout: form.timeout ?? HOOK_VENDORS[vendor].timeout,
    ...(form.isAsync === true && { async: true }),
  };
  return { ...(form.matcher !== undefined && { matcher: form.matcher }), hooks: [entry] };
}

function hooksOf({ hooks }: Json): Json {
  if (hooks === undefined) return {};
  if (!isObject(hooks)) throw new TypeError("hooks: expected an object");
  return { ...hooks };
}

function groupsOf(hooks: Json, event: string): Json[] {
  const groups = hooks[event] ?? [];
  if (!Array.isArray(groups) || !groups.every(isObject))
    throw new TypeError(`hooks.${event}: expected a list of objects`);
  return groups;
}

function entriesOf({ hooks = [] }: Json): Json[] {
  if (!Array.isArray(hooks) || !hooks.every(isObject))
    throw new TypeError("hooks: expected a list of objects");
  return hooks;
}

const commandOf = ({ command }: Json): string => (typeof command === "string" ? command : "");

function isOwn(entry: Json, vendor: HookVendorName): boolean {
  const command = commandOf(entry);
  return OWN.test(command) && command.includes(` hook ${vendor} `) && command.includes("fleet");
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
