/**
 * The hooks of the agent programs, as data: which of their events are which of the canonical ones, where their settings
 * are, and in which form they take an answer.
 */
import { join } from "node:path";
import { PROMPT_BUDGETS, type PromptBudget } from "../../protocol/prompt.ts";
import type { TurnEventType } from "../../protocol/turns.ts";

export interface VendorEvent {
  readonly event: TurnEventType;
  /** The program does not wait for the hook. */
  readonly isAsync?: boolean;
  readonly matcher?: string;
  /** Instead of the time of the vendor, for an event that the program gives less. */
  readonly timeout?: number;
  /** The program passes no answer to this event on, after these reasons: the next prompt carries it. */
  readonly dropsAnswerAfter?: readonly string[];
  /** The program reports an automatic compaction before every request, and shortens a context only from this many tokens. */
  readonly automaticFromTokens?: number;
}

export interface HookVendor {
  readonly title: string;
  /** The settings of a user; `env` may name another folder. */
  readonly userSettings: (home: string, env: Readonly<Record<string, string | undefined>>) => string;
  /** The settings of a project, relative to its folder. */
  readonly projectSettings: string;
  /** The time that the program gives a hook, in its own unit. */
  readonly timeout: number;
  readonly events: Readonly<Record<string, VendorEvent>>;
  /** The length of a text that the program passes on to its model without cutting. */
  readonly budget: PromptBudget;
  /** The answer that adds a text to the context of a new session. */
  readonly context: (text: string) => object;
  /** The answer that adds a text to a prompt. */
  readonly promptContext: (text: string) => object;
  /** The answer that lets the agent continue, with the text as its instruction. */
  readonly ask: (text: string) => object;
  /** The answer that shows a text to the user, at any event. */
  readonly notice: (text: string) => object;
}

export const HOOK_VENDOR_NAMES = ["claude-code", "codex", "gemini"] as const;
export type HookVendorName = (typeof HOOK_VENDOR_NAMES)[number];

const added =
  (hookEventName: string) =>
  (additionalContext: string): object => ({ hookSpecificOutput: { hookEventName, additionalContext } });
const notice = (systemMessage: string): object => ({ systemMessage });
const block = (text: string): object => ({ decision: "block", reason: text });

export const HOOK_VENDORS: Readonly<Record<HookVendorName, HookVendor>> = {
  "claude-code": {
    title: "Claude Code",
    userSettings: (home, { CLAUDE_CONFIG_DIR }) =>
      join(CLAUDE_CONFIG_DIR ?? join(home, ".claude"), "settings.json"),
    projectSettings: join(".claude", "settings.json"),
    timeout: 10,
    events: {
      SessionStart: { event: "session_start" },
      UserPromptSubmit: { event: "user_prompt_submit" },
      PostToolUse: { event: "after_model", isAsync: true, matcher: "*" },
      // A tool that failed is reported by this event alone.
      PostToolUseFailure: { event: "after_model", isAsync: true, matcher: "*" },
      Stop: { event: "agent_stop" },
      StopFailure: { event: "agent_error" },
      PreCompact: { event: "pre_compact" },
      SessionEnd: { event: "session_end" },
    },
    budget: PROMPT_BUDGETS.claude_hook,
    context: added("SessionStart"),
    promptContext: added("UserPromptSubmit"),
    ask: block,
    notice,
  },
  codex: {
    title: "Codex CLI",
    userSettings: (home, { CODEX_HOME }) => join(CODEX_HOME ?? join(home, ".codex"), "hooks.json"),
    projectSettings: join(".codex", "hooks.json"),
    timeout: 10,
    events: {
      SessionStart: { event: "session_start" },
      UserPromptSubmit: { event: "user_prompt_submit" },
      PostToolUse: { event: "after_model" },
      Stop: { event: "agent_stop" },
      PreCompact: { event: "pre_compact" },
      SessionEnd: { event: "session_end", timeout: 3 },
    },
    budget: PROMPT_BUDGETS.codex_hook,
    context: added("SessionStart"),
    promptContext: added("UserPromptSubmit"),
    ask: block,
    notice,
  },
  gemini: {
    title: "Gemini CLI",
    userSettings: (home) => join(home, ".gemini", "settings.json"),
    projectSettings: join(".gemini", "settings.json"),
    timeout: 10_000,
    events: {
      SessionStart: { event: "session_start", dropsAnswerAfter: ["clear"] },
      BeforeAgent: { event: "user_prompt_submit" },
      AfterTool: { event: "after_model" },
      AfterAgent: { event: "agent_stop" },
      // Half of the context of its models, the default of model.compressionThreshold.
      PreCompress: {
        event: "pre_compact",
        automaticFromTokens: 524_288,
        // No session begins after the compaction.
        dropsAnswerAfter: ["manual", "auto"],
      },
      SessionEnd: { event: "session_end" },
    },
    budget: PROMPT_BUDGETS.claude_hook,
    context: added("SessionStart"),
    promptContext: added("BeforeAgent"),
    ask: (text) => ({ decision: "deny", reason: text }),
    notice,
  },
};

export function isHookVendor(name: string): name is HookVendorName {
  return (HOOK_VENDOR_NAMES as readonly string[]).includes(name);
}
