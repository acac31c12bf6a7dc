// `fleet checkpoint`: writes, changes and reads checkpoints, with one file for each verb.

import type { Command } from "commander";
import type { ActionFactory } from "../../runtime/action.ts";
import { addCreate } from "./create.ts";
import { addFinalize } from "./finalize.ts";
import { addHistory } from "./history.ts";
import { addLink } from "./link.ts";
import { addList } from "./list.ts";
import { addPrune } from "./prune.ts";
import { addRemove } from "./remove.ts";
import { addSearch } from "./search.ts";
import { addShow } from "./show.ts";
import { addUpdate } from "./update.ts";

export function addCheckpoints(program: Command, action: ActionFactory): void {
  const group = program
    .command("checkpoint")
    .summary("Write, change, list, search and remove checkpoints.")
    .description(
      "Write, change, list, search and remove checkpoints. `checkpoint` with options alone is `checkpoint create`.",
    );
  for (const addVerb of [addCreate, addUpdate, addFinalize, addLink, addRemove]) addVerb(group, action);
  for (const addVerb of [addList, addShow, addHistory, addSearch, addPrune]) addVerb(group, action);
}
