// One event as one line: its time, its type, its task and its data.

import { principalLabel } from "../../../../shared/protocol/principal.ts";
import { objectOf } from "../../input/checkpoint/checkpoint.ts";
import { plain, short } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

export interface EventText {
  readonly time: string;
  readonly type: string;
  readonly subject: string;
  readonly data: unknown;
}

export function renderEvent(event: EventText, { colors }: View): string {
  const facts = Object.entries(objectOf(event.data))
    .filter(([name]) => name !== "taskId")
    .map(
      ([name, value]) => `${plain(name)}=${Array.isArray(value) ? value.map(word).join(",") : word(value)}`,
    );
  const type = event.type.padEnd(20);
  return `${colors.dim(plain(event.time))}  ${colors.cyan(plain(type))}  ${plain(event.subject)}  ${facts.join(" ")}`.trimEnd();
}

/** Quoted if it contains a separator of the line. */
function word(value: unknown): string {
  const text = typeof value === "string" ? principalLabel(value) : short(value);
  return /[\s="]/.test(text) && typeof value === "string" ? plain(JSON.stringify(text)) : plain(text);
}
