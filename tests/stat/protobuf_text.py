"""Decodes protocol buffers by protoc and a schema of this folder."""

import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parse_text(lines):
    """Parses the text that protoc prints: each message becomes a dictionary of lists."""
    message = {}
    for line in lines:
        line = line.strip()
        if line == "}":
            return message
        if line.endswith("{"):
            message.setdefault(line[:-1].strip(), []).append(parse_text(lines))
        else:
            name, value = line.split(": ", 1)
            if value.startswith('"'):  # escapes stand for bytes
                value = value[1:-1].encode().decode("unicode_escape").encode("latin-1").decode()
            else:
                value = {"true": 1, "false": 0}.get(value) if value in ("true", "false") else int(value)
            message.setdefault(name, []).append(value)
    return message


def decode(protoc, schema, message, content):
    """Returns the message, what protoc complains of, and whether a field is unknown to the schema. protoc omits values of proto3
    that are 0 or false."""
    done = subprocess.run([protoc, f"--proto_path={HERE}", f"--decode={message}", HERE / schema], input=content,
                          capture_output=True, timeout=100, check=True)
    text = done.stdout.decode()
    return parse_text(iter(text.splitlines())), done.stderr.decode(), re.search(r"^\s*\d+[:{ ]", text, re.M) is not None


class Trace:
    """A decoded trace: its tracks by their numbers, and its events with the names that they refer to."""

    def __init__(self, protoc, content):
        self.message, self.complaints, self.has_unknown = decode(protoc, "trace.proto", "Trace", content)
        self.packets = self.message["packet"]
        self.tracks, self.names, self.events = {}, {}, []
        for p in self.packets:
            for data in p.get("interned_data", []):
                self.names.update({n["iid"][0]: n["name"][0] for n in data.get("event_names", [])})
            for track in p.get("track_descriptor", []):
                assert track["uuid"][0] not in self.tracks, "a track is described twice"
                self.tracks[track["uuid"][0]] = track
            for e in p.get("track_event", []):
                name = self.names[e["name_iid"][0]] if "name_iid" in e else None
                self.events.append((p["timestamp"][0], e["type"][0], e["track_uuid"][0], name, e))

    def thread(self, uuid):
        return self.tracks[uuid]["thread"][0]["tid"][0]

    def slices(self):
        """Returns (thread, name, begin, end or None) of the slices on tracks of threads. Raises ValueError if they are not
        nested."""
        found, open_ones = [], {}
        for at, kind, track, name, _ in self.events:
            if "thread" not in self.tracks[track]:
                continue
            mine = open_ones.setdefault(track, [])
            if kind == 1:
                mine.append(len(found))
                found.append([self.thread(track), name, at, None])
            elif kind == 2:
                if not mine:
                    raise ValueError(f"a slice ends at {at} on track {track}, where none is open")
                found[mine.pop()][3] = at
        return [tuple(one) for one in found]

    def flows(self):
        """Returns {number: [(thread, name, time) of the beginning, of the end]}."""
        found = {}
        for field, place in (("flow_ids", 0), ("terminating_flow_ids", 1)):
            for at, _, track, name, e in self.events:
                for number in e.get(field, []):
                    found.setdefault(number, [None, None])[place] = (self.thread(track), name, at)
        return found

    def counters(self):
        found = {}
        for at, kind, track, _, e in self.events:
            if kind == 4:
                found.setdefault(self.tracks[track]["name"][0], []).append((at, e["counter_value"][0]))
        return found
