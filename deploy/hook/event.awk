# Writes an event of an agent's program in the form that the helper reads: lines of `name=value`, an empty line, and the payload without
# the values of variables that are named like secrets. Ends with 1 if hook.mjs has to decide.

function escaped(text,  out, n, char) {
  if (text !~ /[\\"\001-\037]/) return text
  for (n = 1; n <= length(text); n++) {
    char = substr(text, n, 1)
    if (char == "\\" || char == "\"") char = "\\" char
    else if (char == "\n") char = "\\n"
    else if (char == "\r") char = "\\r"
    else if (char == "\t") char = "\\t"
    else if (char ~ /[\001-\037]/) exit 1
    out = out char
  }
  return out
}

# A number or a path, which a text without them would not explain.
function plain(value) {
  return (length(value) <= 11 && value ~ /^[0-9]+$/) || value ~ /^(~|\.\.?)\//
}

# The longest first: a shorter one may be its begin.
function add(secret,  at) {
  for (at = ++count; at > 1 && length(secrets[at - 1]) < length(secret); at--) secrets[at] = secrets[at - 1]
  secrets[at] = secret
}

BEGIN {
  print "vendor=" ENVIRON["VENDOR"]
  print "event=" ENVIRON["EVENT"]
  print "wait=" ENVIRON["WAIT"]
  print "answer=file"
  print "cwd=" ENVIRON["CWD"]
  # To ask for a variable that is not set would make one.
  names = ","
  if ("FLEET_SECRET_NAMES" in ENVIRON) names = "," ENVIRON["FLEET_SECRET_NAMES"] ","
  gsub(/[ \t]/, "", names)
  for (name in ENVIRON) {
    value = ENVIRON[name] ""
    if (name ~ /^FLEET_/ && value !~ /[\n\r]/) print name "=" value
    if ((index(names, "," name ",") > 0 || toupper(name) ~ /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(^|_)(PASS|COOKIES?|CREDS?|SEED|DSN|PAT)(_|$)/) && length(value) >= 8 && !plain(value)) add(escaped(value))
  }
  print ""
}

{
  line = $0
  # Other forms of the same characters, in which no secret would be found. Control characters have no other form.
  if (count > 0 && line ~ /\\u([1-9A-Fa-f]|0[1-9A-Fa-f]|00[2-9A-Fa-f])|\\\//) exit 1
  for (n = 1; n <= count; n++) {
    secret = secrets[n]
    rest = line
    line = ""
    while ((at = index(rest, secret)) > 0) {
      # It may be the path of a file, which is no secret.
      if (substr(secret, 1, 1) == "/") exit 1
      line = line substr(rest, 1, at - 1) "[redacted]"
      rest = substr(rest, at + length(secret))
    }
    line = line rest
  }
  print line
}
