import json

import numpy as np
import pytest
from PIL import Image

from lockstep.embedded.training.data import load_pictures, render_pictures
from lockstep.embedded.training.data.art import draw_by_code, draw_by_name, svg_of
from lockstep.embedded.training.data.concepts import build_concepts, code_of
from lockstep.embedded.training.data.render import FILL, SIZE, fit
from lockstep.errors import NotFoundError, UnknownNameError

pytest.importorskip("resvg_py", reason="the rasteriser of the extra `training`")


def test_fit_crops_centres_and_fills():
    picture = np.zeros((200, 200, 4), np.uint8)
    picture[10:40, 100:180] = (10, 20, 30, 255)
    out = fit(Image.fromarray(picture))
    rows, columns = np.nonzero(out[..., 3] > 127)
    assert out.shape == (SIZE, SIZE, 4)
    assert columns.max() + 1 - columns.min() == round(SIZE * FILL)
    assert rows.max() + 1 - rows.min() == pytest.approx(SIZE * FILL * 30 / 80, abs=1)
    assert abs(rows.max() + rows.min() + 1 - SIZE) <= 1
    assert abs(columns.max() + columns.min() + 1 - SIZE) <= 1
    assert (out[out[..., 3] == 255][:, :3] == (10, 20, 30)).all()  # no dark seam from the empty surroundings
    assert (out[out[..., 3] == 0][:, :3] == 255).all()


def test_an_empty_drawing_gives_no_picture():
    assert fit(Image.new("RGBA", (64, 64))) is None


def test_svg_follows_an_alias_and_its_own_box():
    icons = {"width": 32, "icons": {"a": {"body": "<g/>", "height": 20, "left": 3}}, "aliases": {"b": {"parent": "a"}}}
    assert 'viewBox="3 0 32 20"' in svg_of(icons, "b")
    assert svg_of(icons, "c") is None


def test_older_sets_join_by_name_and_give_an_icon_once(packages):
    concepts = build_concepts(packages / "unpacked")
    drawn = list(draw_by_name(packages / "unpacked", "firefox", concepts, package="fxemoji"))
    codes = [drawing.concept for drawing in drawn]
    # "dog" is the face's; "window" shows something else and is left out by hand.
    assert sorted(codes) == sorted(map(code_of, ("🐶", "❤️", "🐘")))


def test_code_points_join_with_and_without_selector(packages):
    path = packages / "unpacked/noto/chars.json"
    chars = json.loads(path.read_text())
    chars["2764-FE0F"] = chars.pop("2764")
    path.write_text(json.dumps(chars))
    concepts = build_concepts(packages / "unpacked")
    drawn = {d.concept for d in draw_by_code(packages / "unpacked", "noto", concepts, package="noto", chars="noto")}
    assert "2764" in drawn


def test_rendered_pictures_and_their_table(built):
    rgba, pictures = load_pictures(built)
    assert rgba.shape == (len(pictures), SIZE, SIZE, 4)
    assert [picture.index for picture in pictures] == list(range(len(pictures)))
    where = {(picture.concept, picture.style): picture for picture in pictures}
    banana = where[code_of("🍌"), "noto"]
    assert (banana.licence, banana.source, banana.natural) == ("Apache-2.0", "noto@1", "yellow")
    assert where[code_of("🐘"), "3d"].licence == "MIT"
    assert tuple(rgba[banana.index, 64, 64]) == (0xFC, 0xD0, 0x24, 255)


def test_what_is_there_is_kept_and_only_a_changed_style_is_rendered(packages):
    styles = ("noto", "3d")
    table = render_pictures(packages, styles=styles, workers=1)
    parts = {style: packages / f"pictures/parts/{style}.npy" for style in styles}
    before = {path: path.stat().st_mtime_ns for path in (*parts.values(), table)}
    first = np.array(load_pictures(packages)[0])
    render_pictures(packages, styles=styles, workers=1)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    icons = packages / "unpacked/noto/icons.json"
    icons.write_text(icons.read_text().replace("#fcd024", "#24d0fc"))
    render_pictures(packages, styles=styles, workers=1)
    assert parts["3d"].stat().st_mtime_ns == before[parts["3d"]]
    second, pictures = load_pictures(packages)
    changed = [p.index for p in pictures if (second[p.index] != first[p.index]).any()]
    assert [(pictures[i].concept, pictures[i].style) for i in changed] == [(code_of("🍌"), "noto")]


def test_unknown_style_and_missing_stage(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'flat'"):
        render_pictures(tmp_path, styles=("flatt",))
    with pytest.raises(NotFoundError, match="`render`"):
        load_pictures(tmp_path)
